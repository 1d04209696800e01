# Sourced by the scripts beside it: makes a virtual environment once, and finds what the tests need.

# venv NAME PACKAGE…: sets $python. An installation that is incomplete, or has other packages, is replaced.
venv() {
  local folder=target/peers/$1 packages
  shift
  packages="$*"
  python=$folder/bin/python
  if [ "$(cat "$folder/installed" 2>/dev/null)" = "$packages" ] && [ -x "$python" ]; then return; fi
  echo "installing $packages into $folder"
  mkdir -p "$folder"
  "${PYTHON:-python3}" -m venv --clear "$folder" || { echo "python3 with its venv module is needed (Debian: apt install python3-venv)"; return 1; }
  "$python" -m pip install --quiet --disable-pip-version-check "$@" || { echo "PyPI must be reachable for this first time"; return 1; }
  echo "$packages" >"$folder/installed"
}

# serve LOG COMMAND…: starts a server that prints a line of JSON when it is ready, and sets $line to it. It ends with this script,
# which holds its standard input.
serve() {
  local log=$1
  shift
  coproc SERVER { exec "$@" 2>"$log"; }
  server=$SERVER_PID
  trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null' EXIT
  # Other words may come before it.
  while IFS= read -r -t 300 line <&"${SERVER[0]}"; do
    case $line in '{"url"'*) return 0 ;; esac
  done
  echo "the server did not start; the end of $log:"
  tail -n 20 "$log"
  return 1
}

# field NAME: out of $line.
field() { printf '%s' "$line" | "$python" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

# judge NAME STATUS: the last line, for people.
judge() {
  if [ "$2" -eq 0 ]; then echo "PASS $1"; else echo "FAIL $1"; fi
  return "$2"
}
