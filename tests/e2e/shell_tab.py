"""A real shell at a terminal, in which the tests press TAB.

    with Tab("zsh", folder, scripts, environment) as tab:
        assert tab.complete("muster kill --no") == "muster kill --now"  # what the line is after TAB
        assert "k7" in tab.offers("muster kill ")                        # the text that is shown at more TABs

After each line the shell prints a mark and its prompt, and the next one is only typed then: no pause is needed. What is
typed before the prompt is there would go to a terminal that still handles Ctrl-U itself.
"""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

LIMIT = 20.0
CONTROL = re.compile(r"\x1b(?:\[[?>=]?[\d;]*[ -/]*[@-~]|[()][AB0-2]|[=>78M]|\][^\x07\x1b]*(?:\x07|\x1b\\))|[\x00-\x09\x0b-\x1f]")

# These commands make a shell's terminal plain: no question before a long list, no colours, no pager.
STARTS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
SETTINGS = {
    "bash": "bind 'set bell-style none' 'set page-completions off' 2>/dev/null; bind 'set page-completions off'; "
            "bind 'set completion-query-items 0'; bind 'set enable-bracketed-paste off'; PS1='REA''DY>'",
    "zsh": "PROMPT='REA''DY>' PROMPT_EOL_MARK= LISTMAX=100000; bindkey -e; unsetopt zle_bracketed_paste beep prompt_sp; "
           "autoload -Uz compinit; compinit -u -D",
    "fish": "function fish_prompt; echo -n 'REA''DY>'; end; function fish_greeting; end; set -g fish_autosuggestion_enabled 0",
}
CLEAR = "\x05\x15"  # Ctrl-E Ctrl-U: an empty line


class Tab:
    def __init__(self, shell, folder, scripts, environment):
        self.shell = shell
        self.marks = 0
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execvpe(STARTS[shell][0], STARTS[shell], {"TERM": "xterm", "PS1": "", "HOME": str(folder)} | environment)
        self.pid = pid
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 500, 200, 0, 0))
        self.run(SETTINGS[shell])
        for script in scripts:
            self.run(f"source {script}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)  # the shell gets SIGHUP
        os.waitpid(self.pid, 0)

    def run(self, line):
        """What is seen until the line's command has run."""
        self.marks += 1
        # The quotes keep the line as it is typed from looking like the mark.
        self._type(f"{line}\recho MA''RK-{self.marks}-\r")
        return self._until(f"MARK-{self.marks}-")

    def complete(self, line):
        """The line after one TAB. It runs as the argument of echo."""
        seen = self.run(f"{line}\t\x05'\x01echo 'LI''NE<>")  # Ctrl-E and Ctrl-A go to its ends
        found = re.findall(r"LINE<>(.*)", seen)
        return found[-1].strip() if found else seen

    def offers(self, line):
        """The text that is shown for the line at several TABs. bash shows a list only at the second one."""
        self.marks += 1
        leave = "\x1b\x1b" if self.shell == "fish" else ""  # its list is a pager
        self._type(f"{line}\t\t\t{leave}{CLEAR}echo MA''RK-{self.marks}-\r")
        return self._until(f"MARK-{self.marks}-")

    def _type(self, text):
        data = text.encode()
        while data:
            data = data[os.write(self.fd, data):]

    def _until(self, mark):
        seen, end = "", time.monotonic() + LIMIT
        while "READY>" not in seen.partition(mark)[2]:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{self.shell} does not answer; seen: {seen!r}"
            seen = CONTROL.sub("", seen + os.read(self.fd, 65536).decode(errors="replace"))
        return seen.partition(mark)[0]
