"""The server that web platform tests of fetch ask: wpt_server.py CHECKOUT PORT OTHER_PORT. Needs the Python package wptserve."""
import logging
import os
import sys
import time

from wptserve import config, handlers, server, stash


def main():
    checkout, *ports = sys.argv[1:]
    ports = [int(p) for p in ports]
    builder = config.ConfigBuilder(
        logging.getLogger(),
        browser_host='localhost', server_host='127.0.0.1', doc_root=checkout, ports={'http': ports, 'https': ports, 'ws': ports[:1], 'wss': ports[:1]},
        subdomains=set(), not_subdomains=set(), check_subdomains=False, ssl={'type': 'none'})
    shelf = stash.StashServer()
    shelf.__enter__()
    with builder as made:
        routes = [('*', '*.py', handlers.python_script_handler), ('GET', '*.asis', handlers.as_is_handler), ('GET', '*', handlers.file_handler),
                  ('HEAD', '*', handlers.file_handler), ('POST', '*', handlers.file_handler)]
        for port in ports:
            server.WebTestHttpd(host='127.0.0.1', port=port, doc_root=checkout, routes=routes, config=made, bind_address=True).start()
        print('ready', flush=True)
        try:
            while True:
                time.sleep(60)
        except KeyboardInterrupt:
            shelf.__exit__()
            os._exit(0)  # its threads wait for requests


main()
