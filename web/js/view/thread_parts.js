// What a conversation with turns needs, loaded together.
export { Head } from "./head.js";
export { TurnList } from "./turn_list.js";
