# Sourced by the scripts beside it: npm packages, installed once.

# install FOLDER PACKAGE.JSON. What packages only expect beside them is not installed: it takes npm more than ten minutes to choose among all that CopilotKit's runtime may run with.
install() {
  cmp -s "$2" "$1/installed.json" && return
  echo "installing what $2 names into $1"
  mkdir -p "$1" && cp "$2" "$1/package.json"
  (cd "$1" && npm install --no-audit --no-fund --no-package-lock --ignore-scripts --legacy-peer-deps --loglevel=error) || { echo "npm's registry must be reachable for this first time"; exit 3; }
  cp "$2" "$1/installed.json"
}
