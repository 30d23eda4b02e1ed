// The script that a host's python3 runs for the probe, and the parser of its output.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::agent::inline probe {

// The script for python3 -c. It prints two lines. It takes torch's version from the package's metadata, because
// importing torch takes seconds.
inline constexpr std::string_view kPythonQuestion =
    "import sys\n"
    "try:\n"
    "    from importlib.metadata import version\n"
    "    torch = version('torch')\n"
    "except Exception:\n"
    "    torch = ''\n"
    "print()\n"
    "print('MUSTER-PYTHON', sys.version.split()[0], sys.executable)\n"
    "print('MUSTER-TORCH', torch)\n";

struct PythonAnswer {
  std::string version;
  std::string path;
  std::string torch;  // empty if torch is not installed
};

// nullopt if `output` contains no answer. Other printed lines are ignored, such as those of a site's start-up files.
// A version with other characters than [A-Za-z0-9.+_-] counts as missing. Pure.
std::optional<PythonAnswer> parse_python_answer(std::string_view output);

}  // namespace muster::agent::probe
