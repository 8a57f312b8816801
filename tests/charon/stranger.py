"""Clients of charon's socket that are not charon: stranger.py SOCKET noise|version|user|spis.
Prints the results."""
import os
import random
import socket
import struct
import sys

path, what = sys.argv[1:]
CONTROL, GET_SPI = 1, 16
NOBODY = 65534


def connect():
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.settimeout(10)
    client.connect(path)
    return client


def header(kind, number=0):
    return struct.pack("<HHI", kind, 0, number)


VERSION = 4


def hello(version=VERSION):
    name = b"a stranger"
    return header(1) + struct.pack("<4sHBBQH", b"CNVY", version, CONTROL, 0, 0x5712, len(name)) + name


def answer(client):
    """Receives one message; empty if the gateway has closed the connection."""
    try:
        return client.recv(2048)
    except ConnectionResetError:
        return b""


def status(message):
    return struct.unpack_from("<H", message, 8)[0]


def noise():
    random.seed(4)
    for number in range(300):
        client = connect()
        message = random.randbytes(random.randrange(1, 2000))
        if number % 3 == 0:
            message = hello()[: 1 + number // 3 % 30] + message[:40]
        client.send(message)
        reply = answer(client)
        assert not reply or status(reply) != 0, f"noise was welcome: {message.hex()}"
        client.close()
    return "300 hellos of noise refused"


def version():
    client = connect()
    client.send(hello(version=77))
    reply = answer(client)
    assert status(reply) != 0 and struct.unpack_from("<H", reply, 10)[0] == VERSION, reply
    assert answer(client) == b"", "the connection stays open"
    second = connect()
    second.send(hello())
    reply = answer(second)
    assert status(reply) != 0, "a second charon was let in beside the first"
    return "version 77 and a second charon refused"


def user():
    """The result for another user: 0 connection closed, 1 answered, 3 could not connect."""
    child = os.fork()
    if child == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            client = connect()
            try:
                client.send(hello())
                os._exit(1 if answer(client) else 0)
            except OSError:
                os._exit(0)
        except PermissionError:
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def other_user():
    """First with the socket's restrictive mode, then without."""
    folder = os.path.dirname(path)
    for above in (os.path.dirname(folder), folder):
        os.chmod(above, 0o711)
    assert user() == 3, "the socket's mode lets another user in"
    mode = os.stat(path).st_mode & 0o777
    os.chmod(path, 0o666)
    result = user()
    os.chmod(path, mode)
    assert result == 0, f"another user was heard: {result}"
    return "another user is refused by the socket's mode, and without it by who it is"


def spis():
    """Acts as charon and requests SPIs until there are no more."""
    client = connect()
    client.send(hello())
    assert status(answer(client)) == 0, "refused"
    host = lambda last: struct.pack("<BBH16s", 4, 0, 0, bytes([192, 0, 2, last]))
    request = struct.pack("<B3x", 50) + host(2) + host(1)
    got = set()
    while True:
        client.send(header(GET_SPI, len(got)) + request)
        reply = answer(client)
        if status(reply) != 0:
            return f"{len(got)} SPIs, no two the same, then: {reply[12:].decode()}"
        spi = struct.unpack_from("<I", reply, 12)[0]
        assert spi not in got and spi >= 0xC0000000, hex(spi)
        got.add(spi)


print({"noise": noise, "version": version, "user": other_user, "spis": spis}[what]())
