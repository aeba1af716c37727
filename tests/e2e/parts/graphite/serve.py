"""Serves graphite-web for tests: serve.py FOLDER PORT CARBON_PORT, or --version.

FOLDER gets its data and logs, and has carbon's. CARBON_PORT is the port at which carbon answers for samples
that it has not written yet.
"""

import os
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


def application(folder, carbon):
    os.environ["GRAPHITE_ROOT"] = folder
    os.environ["GRAPHITE_CONF_DIR"] = os.path.join(folder, "conf")
    os.environ["GRAPHITE_STORAGE_DIR"] = os.path.join(folder, "storage")
    os.makedirs(os.path.join(folder, "storage", "log", "webapp"), exist_ok=True)
    os.environ["DJANGO_SETTINGS_MODULE"] = "graphite.settings"
    from graphite import settings

    # There is no login; Django needs a key all the same.
    settings.SECRET_KEY = "for tests only"
    settings.CARBONLINK_HOSTS = [f"127.0.0.1:{carbon}:a"]
    from graphite.wsgi import application

    return application


def main():
    if sys.argv[1:] == ["--version"]:
        import cairocffi  # noqa: F401, graphite-web needs libcairo even where it draws nothing
        from graphite.settings import WEBAPP_VERSION

        print(WEBAPP_VERSION)
        return
    folder, port, carbon = sys.argv[1:]
    served = application(folder, carbon)
    make_server("127.0.0.1", int(port), served, server_class=Server).serve_forever()


main()
