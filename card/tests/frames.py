"""Frames on the card's 64-bit links: words with start, end, byte count and error, from and to bytes."""

from stream import Sink, Source

FIELDS = ["data", "sof", "eof", "bytes", "err"]


def words_of(frame, err=0):
    """The words of one frame; a frame with `err` is one that its sender calls broken."""
    assert frame, "a frame has at least one byte"
    count = (len(frame) + 7) // 8
    words = []
    for index in range(count):
        part = frame[8 * index : 8 * index + 8]
        last = index == count - 1
        words.append(
            {
                "data": int.from_bytes(part, "little"),
                "sof": int(index == 0),
                "eof": int(last),
                "bytes": len(part),
                "err": int(last and err),
            }
        )
    return words


class FrameSource(Source):
    """Sends frames into `prefix`."""

    def __init__(self, dut, prefix="s", fields=FIELDS, **options):
        super().__init__(dut, prefix, fields, **options)

    async def frame(self, data, err=0, **beside):
        """Sends one frame; `beside` are further fields of the link that hold for all its words."""
        words = [{**word, **beside} for word in words_of(data, err)]
        await self.send_all([{field: word[field] for field in self.fields} for word in words])


class FrameSink(Sink):
    """Takes frames from `prefix`, and checks the framing of each."""

    def __init__(self, dut, prefix="m", fields=FIELDS, **options):
        super().__init__(dut, prefix, fields, **options)
        self.last = {}

    async def frame(self):
        """The next frame's bytes, and its error flag; `self.last` is its last word with the fields beside."""
        data = b""
        while True:
            word = await self.get()
            if "sof" in word:
                assert word["sof"] == int(not data), f"sof inside a frame or none at its start: {word}"
            assert 1 <= word["bytes"] <= 8 and (word["eof"] or word["bytes"] == 8), f"short word: {word}"
            data += word["data"].to_bytes(8, "little")[: word["bytes"]]
            if word["eof"]:
                self.last = word
                return data, word.get("err", 0)
