"""Turns questions with an answer into declarative claims, by rules on the question's first words."""

import re

AUX = r"(is|are|was|were|has|have|had|can|could|will|would|do|does|did|should|must|may|might)"
YEAR_WORDS = ("when", "what year", "which year", "in what year", "in which year", "on what date", "what date")
PREPOSITIONS = ("in ", "on ", "at ", "from ", "by ", "during ", "around ", "since ", "after ", "before ", "near ", "within ", "about ", "between ", "amidst ", "through ", "to ")


def clean(question):
    question = re.sub(r"\s+", " ", question).strip().rstrip("?").strip()
    return question[:1].lower() + question[1:] if re.match(r"(Who|What|When|Where|Which|How|In|On|At|To|For|Is|Are|Was|Were|Did|Does|Do|Has|Have|Can)\b", question) else question


def sentence(words):
    words = re.sub(r"\s+", " ", words).strip().rstrip(".")
    return words[:1].upper() + words[1:] + "."


def placed(answer, default):
    return answer if answer.lower().startswith(PREPOSITIONS) else f"{default} {answer}"




def declarative(question, answer):
    """A claim that holds if `answer` answers `question`, or None where no rule applies."""
    q, answer = clean(question), answer.strip().rstrip(".")
    if not answer or len(answer.split()) > 12 or len(q.split()) > 30 or re.search(r"[,:] .+ or ", q):
        return None
    # who VERB …, what VERB …: the answer takes the place of the first word.
    match = re.match(rf"(who|what|which)\s+{AUX}\s+(.+)$", q)
    if match and match[2] in ("is", "are", "was", "were"):
        rest = match[3]
        words = rest.split()
        if words[-1] in ("called", "named", "known", "located", "born", "from", "for", "by", "of", "in", "with", "to", "about"):
            return sentence(f"{rest.rsplit(' ', 1)[0]} {match[2]} {words[-1]} {answer}")
        if match[1] == "who" and re.match(r"\w+(ed|ing|en)\b", rest):
            return sentence(f"{answer} {match[2]} {rest}")
        if re.match(r"(the|a|an|his|her|their|its|one)\b|[A-Z]", rest):
            return sentence(f"{rest} {match[2]} {answer}")
        return sentence(f"{answer} {match[2]} {rest}")
    if match and match[2] in ("did", "does", "do"):
        subject = re.match(r"((?:the |a |an |his |her |their )?(?:[A-Z0-9][\w.'’&-]*(?: (?:of|the|de|van|and) )? ?){1,6}|(?:the |a |an |his |her |their )\w+ )(?<=\s)(\w+.*)$", match[3])
        if subject:
            return sentence(f"what {subject[1].strip()} {match[2]} {subject[2]} {'was' if match[2] == 'did' else 'is'} {answer}")
        return None
    if re.match(r"who\s+\w+", q) and not match:
        return sentence(re.sub(r"^who\s+", f"{answer} ", q))
    match = re.match(rf"(?:in |on |at |during )?(when|where|(?:what|which) (?:year|date|day|month|city|country|state|century|decade))\s+{AUX}\s+(.+)$", q)
    if match:
        place = placed(answer, "in")
        if match[2] in ("is", "are", "was", "were", "has", "have", "had", "can", "will"):
            subject = re.match(r"(.+?)\s+(\w+(?:ed|en|rn|ld|nt|ade|un|ung|ost|on|id|ught|et|ut|it|sh|located|based|held|made|built)\b.*)$", match[3])
            if subject:
                return sentence(f"{subject[1]} {match[2]} {subject[2]} {place}")
            return sentence(f"{match[3]} {match[2]} {place}")
        subject = re.match(r"((?:the |a |an |his |her |their )?(?:[A-Z0-9][\w.'’&-]*(?: (?:of|the|de|van|and) )? ?){1,6}|(?:the |a |an |his |her |their )\w+ )(?<=\s)(\w+.*)$", match[3])
        return sentence(f"{subject[1].strip()} {match[2]} {subject[2]} {place}") if subject else None
    match = re.match(rf"how (many|much)\s+(.+?)\s+{AUX}\s+(.+)$", q)
    if match:
        thing = match[2] if match[1] == "many" else f"of {match[2]}"
        if match[4].startswith("there"):
            return sentence(f"there {match[3]} {answer} {thing} {match[4][5:]}")
        if match[3] in ("is", "are", "was", "were"):
            return sentence(f"{answer} {thing} {match[3]} {match[4]}")
        return sentence(f"the number of {match[2]} that {match[4]} {match[3]} is {answer}") if match[3] in ("did", "does", "do") else None
    match = re.match(rf"(what|which)\s+((?:\w[\w'-]*\s+){{1,3}}?){AUX}\s+(.+)$", q)
    if match and match[3] not in ("do", "does", "did"):
        return sentence(f"{answer} is the {match[2].strip()} that {match[3]} {match[4]}")
    match = re.match(r"(what|which)\s+(\w+(?: \w+)?)\s+(\w+(?:ed|s)|won|led|wrote|sang|made|held|began|became|took|gave|ran|built|sold|saw)\s+(.+)$", q)
    if match:
        return sentence(f"{answer} is the {match[2]} that {match[3]} {match[4]}")
    return None


def yes_no(question, answer):
    """A claim from a question that is answered by yes or no, and whether it holds."""
    q = clean(question)
    match = re.match(r"(is|are|was|were|has|have|can|did|does|do)\s+((?:the |a |an )?(?:[A-Z0-9][\w.'’&-]*(?: (?:of|the|de|van|and) )? ?){1,8}|the \w+ |a \w+ |an \w+ )(?<=\s)(.+)$", q)
    if not match or answer.lower() not in ("yes", "no"):
        return None
    return sentence(f"{match[2].strip()} {match[1]} {match[3]}"), answer.lower() == "yes"


def comparison(question, answer):
    """`Which film came out first, A or B?` gives the claim for the answer and the one for the other."""
    match = re.match(r"(Who|Which \w+|Which|What \w+)\s+(.+?)[,:]?\s+(?:out of |between )?([^,:]+?)(?:,)? or ([^?]+?)\?*$", question.strip())
    if not match or answer not in (match[3].strip(), match[4].strip()):
        return None
    other = match[4].strip() if answer == match[3].strip() else match[3].strip()
    rest = match[2].rstrip(",: ")
    return (sentence(f"{answer} {rest}, compared with {other}"), sentence(f"{other} {rest}, compared with {answer}"))
