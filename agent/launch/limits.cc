#include "agent/launch/limits.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "base/strings.h"

namespace muster::agent {
namespace {

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

base::Result<rlim_t> parse_value(std::string_view text, std::string_view whole) {
  if (text == "unlimited") return static_cast<rlim_t>(RLIM_INFINITY);
  const auto number = base::parse_decimal(text, std::numeric_limits<long>::max());
  if (!number) {
    return base::error(base::Code::kInvalidArgument, "--ulimit {}: '{}' is neither a number nor 'unlimited'", whole,
                       text);
  }
  return static_cast<rlim_t>(*number);
}

base::Status unknown_name(std::string_view name) {
  std::vector<std::string> words;
  for (const LimitName& known : kNames) words.emplace_back(known.name);
  const auto nearest = base::nearest_word(name, words);
  return base::error(
      base::Code::kInvalidArgument, "--ulimit: no limit is called '{}'{}", name,
      nearest ? fmt::format("; did you mean '{}'?", *nearest) : fmt::format("; there are {}", base::join(words, ", ")));
}

}  // namespace

std::vector<RlimitSetting> default_limits() {
  std::vector<RlimitSetting> settings;
  for (const int resource : {RLIMIT_NOFILE, RLIMIT_MEMLOCK}) {
    struct rlimit limit {};
    if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) continue;  // only for a bad resource
    settings.push_back({resource, limit.rlim_max, limit.rlim_max});
  }
  return settings;
}

base::Result<RlimitSetting> parse_ulimit(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return base::error(base::Code::kInvalidArgument, "--ulimit {}: NAME=VALUE is expected, as in nofile=4096", text);
  }
  const std::string_view name = text.substr(0, equals);
  const auto known = std::ranges::find(kNames, name, &LimitName::name);
  if (known == kNames.end()) return unknown_name(name);
  const std::string_view value = text.substr(equals + 1);
  const std::size_t colon = value.find(':');
  MUSTER_ASSIGN_OR_RETURN(const rlim_t soft, parse_value(value.substr(0, colon), text));
  rlim_t hard = soft;
  if (colon != std::string_view::npos) {
    MUSTER_ASSIGN_OR_RETURN(hard, parse_value(value.substr(colon + 1), text));
  }
  if (soft > hard) {
    return base::error(base::Code::kInvalidArgument, "--ulimit {}: the soft limit is above the hard one", text);
  }
  return RlimitSetting{known->resource, soft, hard};
}

std::vector<RlimitSetting> merge_limits(std::vector<RlimitSetting> base, const std::vector<RlimitSetting>& over) {
  for (const RlimitSetting& setting : over) {
    const auto same = std::ranges::find(base, setting.resource, &RlimitSetting::resource);
    if (same == base.end()) {
      base.push_back(setting);
    } else {
      *same = setting;
    }
  }
  return base;
}

std::string limit_name(int resource) {
  const auto known = std::ranges::find(kNames, resource, &LimitName::resource);
  return known == kNames.end() ? fmt::format("resource {}", resource) : std::string(known->name);
}

}  // namespace muster::agent
