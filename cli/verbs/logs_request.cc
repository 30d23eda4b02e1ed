#include "cli/verbs/logs_request.h"

#include <ctime>
#include <string>

#include "base/strings.h"
#include "cli/options/setting_reader.h"

namespace muster::cli::inline verbs {
namespace {

constexpr int kMaxRank = 1'000'000;
constexpr long kMaxLines = 1'000'000'000'000;

base::Status set_ranks(const Setting& setting, v1::LogsRequest& request) {
  const auto list = base::parse_number_list(setting.value, kMaxRank);
  if (!list || list->empty()) {
    return base::invalid_argument("{} must be a list as 0-3,7, not '{}'", setting.label,
                                  base::printable(setting.value));
  }
  request.mutable_ranks()->Add(list->begin(), list->end());
  return base::ok_status();
}

}  // namespace

base::Result<base::WallTime> parse_time(std::string_view text) {
  std::tm utc{};
  const std::string copy(text);
  const char* rest = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &utc);
  std::chrono::microseconds fraction{0};
  if (rest != nullptr && *rest == '.') {
    std::string digits;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest) digits += *rest;
    const bool is_given = !digits.empty();
    digits.resize(6, '0');
    if (!is_given) rest = nullptr;
    fraction = std::chrono::microseconds(base::parse_decimal(digits, 999'999).value_or(0));
  }
  if (rest != nullptr && std::string_view(rest) == "Z") {
    return std::chrono::system_clock::from_time_t(::timegm(&utc)) + fraction;
  }
  return base::invalid_argument("'{}' is no time as 2026-06-20T17:05:53Z", base::printable(text));
}

void set_timestamp(base::WallTime time, google::protobuf::Timestamp& into) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  into.set_seconds(us / 1'000'000);
  into.set_nanos(static_cast<std::int32_t>(us % 1'000'000 * 1000));
}

base::Result<base::WallTime> parse_since(std::string_view text, base::WallTime now) {
  const auto ago = parse_duration(text);
  if (ago.ok()) return now - *ago;
  const auto at = parse_time(text);
  if (at.ok()) return at;
  return base::invalid_argument("'{}' is no time: write how long ago, as 10m, or 2026-06-20T17:05:53Z",
                                base::printable(text));
}

base::Result<v1::LogsRequest> read_logs_request(const Settings& settings, base::WallTime now) {
  v1::LogsRequest request;
  if (const Setting* const ranks = settings.find("rank")) MUSTER_RETURN_IF_ERROR(set_ranks(*ranks, request));
  if (const Setting* const since = settings.find("since")) {
    const auto time = parse_since(since->value, now);
    if (!time.ok()) return time.status().with_context(since->label);
    set_timestamp(*time, *request.mutable_since());
  }
  if (const Setting* const tail = settings.find("tail")) {
    const auto lines = base::parse_decimal(tail->value, kMaxLines);
    if (!lines || *lines == 0) {
      return base::invalid_argument("{} must be a number of lines, 1 or more, not '{}'", tail->label,
                                    base::printable(tail->value));
    }
    request.set_tail_lines(*lines);
  }
  return request;
}

}  // namespace muster::cli::verbs
