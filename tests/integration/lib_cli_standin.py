"""Stands in for a daemon of a cluster, so that the supervisor can be tested without them: makes what the real one makes when
it is ready, and ends on SIGTERM. Its behaviour can be changed by files in the directory of the test:

    fail.NAME     end at once with status 3
    deaf.NAME     do not end on SIGTERM
    noise.NAME    write as many bytes of log lines first
    late.NAME     not ready as long as it is there
"""
import http.server
import os
import signal
import socket
import sys
import time


def argument(name):
    return sys.argv[sys.argv.index(name) + 1]


class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass


def main():
    name = sys.argv[1]
    control = os.environ["MOBULA_TEST_CONTROL"]
    print(f"{name} begins", flush=True)
    if os.path.exists(f"{control}/fail.{name}"):
        print(f"{name} was told to fail", file=sys.stderr, flush=True)
        sys.exit(3)
    if os.path.exists(f"{control}/noise.{name}"):
        with open(f"{control}/noise.{name}", encoding="ascii") as file:
            for i in range(int(file.read()) // 100):
                print(f"noise {i}".ljust(99), flush=True)
    while os.path.exists(f"{control}/late.{name}"):
        time.sleep(0.02)
    if os.path.exists(f"{control}/deaf.{name}"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if name == "node":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(argument("--dir") + "/node.sock")
        listener.listen()
    else:
        host, port = argument("--listen").rsplit(":", 1)
        server = http.server.HTTPServer((host, int(port)), Ready)
        with open(argument("--token-file"), "w", encoding="ascii") as file:
            file.write("mob_sk_standin\n")
        directory = argument("--dir")
        with open(f"{directory}/gateway.addr.new", "w", encoding="ascii") as file:
            file.write(f"{host}:{server.server_port}\n")
        os.rename(f"{directory}/gateway.addr.new", f"{directory}/gateway.addr")
        server.serve_forever()
    while True:
        time.sleep(1000)


main()
