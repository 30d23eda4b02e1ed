#include "model/ulimit.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "base/strings.h"

namespace muster::model {
namespace {

static_assert(static_cast<std::uint64_t>(RLIM_INFINITY) == Ulimit::kUnlimited);

struct LimitName {
  std::string_view name;
  int resource;
};

constexpr std::array<LimitName, 16> kNames{{{"as", RLIMIT_AS},
                                            {"core", RLIMIT_CORE},
                                            {"cpu", RLIMIT_CPU},
                                            {"data", RLIMIT_DATA},
                                            {"fsize", RLIMIT_FSIZE},
                                            {"locks", RLIMIT_LOCKS},
                                            {"memlock", RLIMIT_MEMLOCK},
                                            {"msgqueue", RLIMIT_MSGQUEUE},
                                            {"nice", RLIMIT_NICE},
                                            {"nofile", RLIMIT_NOFILE},
                                            {"nproc", RLIMIT_NPROC},
                                            {"rss", RLIMIT_RSS},
                                            {"rtprio", RLIMIT_RTPRIO},
                                            {"rttime", RLIMIT_RTTIME},
                                            {"sigpending", RLIMIT_SIGPENDING},
                                            {"stack", RLIMIT_STACK}}};

base::Result<std::uint64_t> parse_value(std::string_view text) {
  if (text == "unlimited") return Ulimit::kUnlimited;
  const auto number = base::parse_decimal(text, std::numeric_limits<long>::max());
  if (!number) {
    return base::invalid_argument("'{}' is neither a number nor 'unlimited'", base::printable(text));
  }
  return static_cast<std::uint64_t>(*number);
}

base::Status unknown_name(std::string_view name) {
  std::vector<std::string> words;
  for (const LimitName& known : kNames) words.emplace_back(known.name);
  const auto nearest = base::nearest_word(name, words);
  return base::invalid_argument(
      "unknown limit '{}'{}", base::printable(name),
      nearest ? fmt::format("; did you mean '{}'?", *nearest) : fmt::format("; there are {}", base::join(words, ", ")));
}

}  // namespace

base::Result<Ulimit> parse_ulimit(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return base::invalid_argument("'{}' is not NAME=VALUE, as in nofile=4096", base::printable(text));
  }
  const std::string_view name = text.substr(0, equals);
  const auto* known = std::ranges::find(kNames, name, &LimitName::name);
  if (known == kNames.end()) return unknown_name(name);
  const std::string_view value = text.substr(equals + 1);
  const std::size_t colon = value.find(':');
  MUSTER_ASSIGN_OR_RETURN(const std::uint64_t soft, parse_value(value.substr(0, colon)));
  std::uint64_t hard = soft;
  if (colon != std::string_view::npos) {
    MUSTER_ASSIGN_OR_RETURN(hard, parse_value(value.substr(colon + 1)));
  }
  if (soft > hard) {
    return base::invalid_argument("'{}' has a soft limit above the hard one", text);
  }
  return Ulimit{known->resource, soft, hard};
}

std::string ulimit_name(int resource) {
  const auto* known = std::ranges::find(kNames, resource, &LimitName::resource);
  return known == kNames.end() ? fmt::format("resource {}", resource) : std::string(known->name);
}

}  // namespace muster::model
