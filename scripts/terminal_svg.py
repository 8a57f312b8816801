"""Draws what a terminal shows, with its colours, as SVG.

usage: terminal_svg.py TITLE COLUMNS <TEXT >PICTURE.svg
"""

import html
import io
import sys

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

# Without rich's reference to a font on another server: the picture is a file of its own.
FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
COLOURS = [(12, 17, 23), (255, 123, 114), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255), (86, 212, 221), (201, 209, 217)]
BRIGHT = [(110, 118, 129), (255, 161, 152), (126, 231, 135), (242, 204, 96), (165, 214, 255), (226, 197, 255), (179, 240, 255), (240, 246, 252)]
THEME = TerminalTheme((12, 17, 23), (201, 209, 217), COLOURS, BRIGHT)


def main():
    title, columns = sys.argv[1], int(sys.argv[2])
    console = Console(record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(sys.stdin.read().rstrip("\n")), overflow="crop", no_wrap=True)
    print(console.export_svg(title=title, theme=THEME, code_format=FRAME.replace("TITLE", html.escape(title)), unique_id="terminal"), end="")


main()
