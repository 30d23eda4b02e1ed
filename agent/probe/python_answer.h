// The question that is put to a host's python, and its answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::agent::inline probe {

// For python3 -c. Prints two lines; torch's version comes from the package's metadata, importing it takes seconds.
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
  std::string torch;  // empty: not installed
};

// nullopt: `output` holds no answer. Whatever else was printed (a site's start-up files) is passed over. Versions with
// other characters than [A-Za-z0-9.+_-] count as none. Pure.
std::optional<PythonAnswer> parse_python_answer(std::string_view output);

}  // namespace muster::agent::probe
