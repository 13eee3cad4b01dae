"""Asks for a mail to each address, once however often it is run."""

import sys

from daybook import Client


def main() -> None:
    with Client() as client:  # DAYBOOK_SERVER and DAYBOOK_TOKEN, or this machine
        for address in sys.argv[1:]:
            receipt = client.enqueue("mail", "welcome", {"to": address}, key="welcome:" + address)
            print(receipt["id"], "again" if receipt["replayed"] else "new", address)


main()
