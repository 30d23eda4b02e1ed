#include "agent/probe/python_answer.h"

#include <algorithm>

#include "base/strings.h"

namespace muster::agent::inline probe {
namespace {

constexpr std::string_view kPythonLine = "MUSTER-PYTHON ";
constexpr std::string_view kTorchLine = "MUSTER-TORCH ";
constexpr std::size_t kMostVersion = 64;

std::string version_of(std::string_view word) {
  const bool is_version = !word.empty() && word.size() <= kMostVersion && std::ranges::all_of(word, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '+' ||
           c == '_' || c == '-';
  });
  return is_version ? std::string(word) : std::string();
}

}  // namespace

std::optional<PythonAnswer> parse_python_answer(std::string_view output) {
  PythonAnswer answer;
  for (const std::string_view raw : base::split(output, '\n')) {
    const std::string_view line = base::trim(raw);
    if (line.starts_with(kPythonLine)) {
      const std::string_view rest = line.substr(kPythonLine.size());
      const std::size_t blank = rest.find(' ');
      answer.version = version_of(rest.substr(0, blank));
      if (blank != std::string_view::npos) answer.path = rest.substr(blank + 1);
    } else if (line.starts_with(kTorchLine)) {
      answer.torch = version_of(line.substr(kTorchLine.size()));
    }
  }
  if (answer.version.empty()) return std::nullopt;
  return answer;
}

}  // namespace muster::agent::probe
