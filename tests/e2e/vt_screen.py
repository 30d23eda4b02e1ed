"""What a terminal shows after some output: a small interpreter of the sequences that ncurses sends to an xterm.

    screen = VtScreen(24, 80)
    screen.feed(b"\\x1b[2;3Hhello")
    assert screen.lines()[1] == "  hello"

Colours and modes are read over. A sequence that is not known fails, so that the picture is never wrong in silence.
"""

import re
import unicodedata

CSI = re.compile(r"\x1b\[([?>=]?)([\d;]*)([ !]?)([@-~])")
SHORT = re.compile(r"\x1b(?:[()][AB0-2]|[=>78M])")
TITLE = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
READ_OVER = set("mhlnctqp")  # looks, modes, reports, window titles


class VtScreen:
    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.row = self.column = 0
        self.top, self.bottom = 0, rows  # the lines that scroll
        self.cells = [[" "] * columns for _ in range(rows)]
        self.last = " "

    def lines(self):
        return ["".join(line).rstrip() for line in self.cells]

    def text(self):
        return "\n".join(self.lines())

    def feed(self, data):
        text, at = data.decode(errors="replace"), 0
        while at < len(text):
            if text[at] != "\x1b":
                self._put(text[at])
                at += 1
                continue
            found = CSI.match(text, at) or SHORT.match(text, at) or TITLE.match(text, at)
            if found is None:
                assert len(text) - at < 40, f"unknown sequence: {text[at:at + 20]!r}"
                return  # its end has not come yet
            if found.re is CSI and not found[1]:
                self._control(found[4], [int(number or 0) for number in found[2].split(";")])
            if found[0] == "\x1bM":
                self._reverse_line_feed()
            at = found.end()

    def _put(self, char):
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self._line_feed()
        elif char == "\b":
            self.column = max(self.column - 1, 0)
        elif char == "\t":
            self.column = min(self.column // 8 * 8 + 8, self.columns - 1)
        elif char >= " " and not unicodedata.combining(char):
            width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
            if self.column + width > self.columns:
                self.column = 0
                self._line_feed()
            self.cells[self.row][self.column] = char
            if width == 2:
                self.cells[self.row][self.column + 1] = ""
            self.column += width
            self.last = char

    def _line_feed(self):
        if self.row + 1 == self.bottom:
            self._scroll(self.top, 1)
        else:
            self.row = min(self.row + 1, self.rows - 1)

    def _reverse_line_feed(self):
        if self.row == self.top:
            self._scroll(self.top, -1)
        else:
            self.row = max(self.row - 1, 0)

    def _scroll(self, first, count):
        """Moves the lines from `first` to the end of those that scroll up, or down if count is negative."""
        lines = self.cells[first:self.bottom]
        blank = [[" "] * self.columns for _ in range(min(abs(count), len(lines)))]
        moved = lines[len(blank):] + blank if count > 0 else blank + lines[:len(lines) - len(blank)]
        self.cells[first:self.bottom] = moved

    def _erase(self, row, first, last):
        for column in range(max(first, 0), min(last, self.columns)):
            self.cells[row][column] = " "

    def _control(self, final, numbers):
        count = max(numbers[0], 1)
        line = self.cells[self.row]
        if final in "Hf":
            self.row = min(count, self.rows) - 1
            self.column = min(max(numbers[1] if len(numbers) > 1 else 1, 1), self.columns) - 1
        elif final == "d":
            self.row = min(count, self.rows) - 1
        elif final in "G`":
            self.column = min(count, self.columns) - 1
        elif final == "A":
            self.row = max(self.row - count, 0)
        elif final == "B":
            self.row = min(self.row + count, self.rows - 1)
        elif final == "C":
            self.column = min(self.column + count, self.columns - 1)
        elif final == "D":
            self.column = max(self.column - count, 0)
        elif final == "X":
            self._erase(self.row, self.column, self.column + count)
        elif final == "b":
            for _ in range(count):
                self._put(self.last)
        elif final == "P":
            line[self.column:] = line[self.column + count:] + [" "] * min(count, self.columns - self.column)
        elif final == "@":
            line[self.column:] = ([" "] * count + line[self.column:])[:self.columns - self.column]
        elif final == "K":
            self._erase(self.row, 0 if numbers[0] else self.column, self.column + 1 if numbers[0] == 1 else self.columns)
        elif final == "J":
            if numbers[0] == 2:
                self.cells = [[" "] * self.columns for _ in range(self.rows)]
                return
            self._erase(self.row, 0 if numbers[0] else self.column, self.column + 1 if numbers[0] else self.columns)
            for row in range(0, self.row) if numbers[0] else range(self.row + 1, self.rows):
                self._erase(row, 0, self.columns)
        elif final in "LM":
            self._scroll(self.row, count if final == "M" else -count)
        elif final in "ST":
            self._scroll(self.top, count if final == "S" else -count)
        elif final == "r":
            self.top, self.bottom = count - 1, min(numbers[1] if len(numbers) > 1 else self.rows, self.rows)
            self.row = self.column = 0
        else:
            assert final in READ_OVER, f"unknown sequence: CSI {numbers} {final}"
