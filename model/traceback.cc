#include "model/traceback.h"

#include <vector>

#include "base/strings.h"

namespace muster::model {
namespace {

constexpr std::string_view kFatal = "Fatal Python error: ";
constexpr std::string_view kMissing = "No module named ";

bool is_frame(std::string_view line) {
  return line.starts_with("  File \"") && line.find(", line ") != std::string_view::npos;
}

bool is_in_traceback(std::string_view line) {
  return line.empty() || line.front() == ' ';
}

std::string without_numbers(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    // The digits of an address, too: 0x7f3a is one number.
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (!is_digit) {
      result += text[i];
      continue;
    }
    if (text.substr(i).starts_with("0x")) i += 2;
    while (i < text.size() && std::string_view("0123456789abcdef").find(text[i]) != std::string_view::npos) ++i;
    --i;
    result += '0';
  }
  return result;
}

}  // namespace

std::string_view exception_line(std::string_view text) {
  std::string_view exception;
  bool is_after_frame = false;
  for (const std::string_view line : base::split(text, '\n')) {
    if (line.starts_with(kFatal)) return base::trim(line);
    if (is_frame(line)) {
      is_after_frame = true;
    } else if (is_after_frame && !is_in_traceback(line)) {
      exception = base::trim(line);
      is_after_frame = false;
    }
  }
  return exception;
}

bool is_same_exception(std::string_view a, std::string_view b) {
  return a == b || without_numbers(a) == without_numbers(b);
}

std::string missing_module(std::string_view text) {
  const bool is_exception = text.starts_with("ModuleNotFoundError: ") || text.starts_with("ImportError: ");
  const std::size_t at = text.find(kMissing);
  if (at == std::string_view::npos) return "";
  // python3 -m x prints "/usr/bin/python3: No module named x".
  if (!is_exception && (at < 2 || text.substr(at - 2, 2) != ": ")) return "";
  std::string_view name = text.substr(at + kMissing.size());
  name = name.substr(0, name.find('\n'));
  if (name.starts_with('\'')) {
    name = name.substr(1, name.find('\'', 1) - 1);
  } else {
    name = base::trim(name);
  }
  const bool is_name = !name.empty() && name.find_first_of(" /'\"") == std::string_view::npos;
  return is_name ? std::string(name) : std::string();
}

std::string missing_library(std::string_view exception) {
  constexpr std::string_view kPrefix = "ImportError: ";
  const std::size_t at = exception.find(": cannot open shared object file");
  if (!exception.starts_with(kPrefix) || at == std::string_view::npos || at <= kPrefix.size()) return "";
  return std::string(exception.substr(kPrefix.size(), at - kPrefix.size()));
}

}  // namespace muster::model
