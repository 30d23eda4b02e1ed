#include "cli/verbs/copy_path.h"

#include <limits>

#include "base/strings.h"
#include "cli/verbs/rank_word.h"

namespace muster::cli::inline verbs {
namespace {

constexpr std::size_t kLongestHeader = 64;
constexpr unsigned kModeBits = 07777;

// Reads a number in octal. nullopt if it is none.
std::optional<unsigned> parse_mode(std::string_view text) {
  if (text.empty() || text.size() > 5) return std::nullopt;
  unsigned mode = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '7') return std::nullopt;
    mode = mode * 8 + static_cast<unsigned>(digit - '0');
  }
  return mode <= kModeBits ? std::optional(mode) : std::nullopt;
}

}  // namespace

base::Result<CopyPath> parse_copy_path(std::string_view word) {
  if (word.empty()) return base::invalid_argument("a path is empty");
  const std::size_t first = word.find(':');
  const std::size_t slash = word.find('/');
  const bool is_local = first == std::string_view::npos || first == 0 || slash < first;
  if (is_local) return CopyPath{.path = std::string(word)};
  const std::size_t second = word.find(':', first + 1);
  if (second == std::string_view::npos) {
    return base::invalid_argument("'{}' has no rank: write JOB:RANK:PATH, or ./{} for a file here",
                                  base::printable(word), base::printable(word));
  }
  CopyPath found{.job = std::string(word.substr(0, first)), .path = std::string(word.substr(second + 1))};
  const std::string_view rank = word.substr(first + 1, second - first - 1);
  if (!rank.empty()) {
    MUSTER_ASSIGN_OR_RETURN(found.rank, parse_rank(rank));
  }
  if (found.path.empty()) return base::invalid_argument("'{}' has no path behind its rank", base::printable(word));
  if (found.path.find('\0') != std::string::npos) return base::invalid_argument("a path has a NUL byte");
  return found;
}

base::Result<CopyPlan> parse_copy(std::string_view from, std::string_view to) {
  MUSTER_ASSIGN_OR_RETURN(CopyPath source, parse_copy_path(from));
  MUSTER_ASSIGN_OR_RETURN(CopyPath target, parse_copy_path(to));
  if (source.is_remote() && target.is_remote()) {
    return base::invalid_argument("both paths name a job: copy to a file here first");
  }
  if (!source.is_remote() && !target.is_remote()) {
    return base::invalid_argument("neither path names a job: write one of them as JOB:RANK:PATH");
  }
  return CopyPlan{.from = std::move(source), .to = std::move(target)};
}

std::string base_name(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name == "." || name == ".." ? std::string() : std::string(name);
}

base::Result<std::optional<CopyHeader>> take_copy_header(std::string& bytes) {
  const auto wrong = base::data_loss("the host sent no header: does its /bin/sh print something at its start?");
  const std::size_t end = bytes.find('\n');
  if (end == std::string::npos) {
    if (bytes.size() > kLongestHeader) return wrong;
    return std::optional<CopyHeader>();
  }
  const std::string line = bytes.substr(0, end);
  CopyHeader header;
  if (line == "TREE") {
    header.is_tree = true;
  } else {
    const auto words = base::split(line, ' ');
    if (words.size() != 3 || words[0] != "FILE") return wrong;
    header.has_size = words[1] != "-";
    const auto size = header.has_size ? base::parse_decimal(words[1], std::numeric_limits<long>::max()) : 0;
    const auto mode = parse_mode(words[2]);
    if (!size || !mode) return wrong;
    header.size = *size;
    header.mode = *mode;
  }
  bytes.erase(0, end + 1);
  return std::optional(header);
}

}  // namespace muster::cli::verbs
