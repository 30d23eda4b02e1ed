#include "agent/job/watchdog_request.h"

#include <charconv>
#include <cmath>
#include <csignal>
#include <limits>
#include <optional>
#include <set>

namespace muster::agent::inline job {
namespace {

constexpr double kMaxPid = std::numeric_limits<std::int32_t>::max();
constexpr double kMaxSignalNumber = 64;  // SIGRTMAX of Linux

// Reads one flat JSON object from the front of a text. After an error, the reader must not be used.
class FlatJson {
 public:
  explicit FlatJson(std::string_view text) : rest_(text) {}

  bool take(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool is_at_end() {
    skip_blanks();
    return rest_.empty();
  }
  // Returns the text between the quotes, with its escapes.
  std::optional<std::string> string() {
    if (!take('"')) return std::nullopt;
    for (std::size_t at = 0; at < rest_.size(); ++at) {
      if (static_cast<unsigned char>(rest_[at]) < 0x20) return std::nullopt;
      if (rest_[at] == '\\') {
        ++at;
      } else if (rest_[at] == '"') {
        std::string text(rest_.substr(0, at));
        rest_.remove_prefix(at + 1);
        return text;
      }
    }
    return std::nullopt;
  }
  // Returns a number that is finite.
  std::optional<double> number() {
    skip_blanks();
    // from_chars also accepts "inf" and "nan", which are not JSON.
    if (rest_.empty() || (rest_.front() != '-' && (rest_.front() < '0' || rest_.front() > '9'))) return std::nullopt;
    double value = 0;
    const auto [end, problem] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (problem != std::errc() || !std::isfinite(value)) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  // Skips true, false or null.
  bool word() {
    skip_blanks();
    for (const std::string_view word : {"true", "false", "null"}) {
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return true;
    }
    return false;
  }
  bool is_string() {
    skip_blanks();
    return !rest_.empty() && rest_.front() == '"';
  }

 private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r"), rest_.size())); }

  std::string_view rest_;
};

bool is_whole(double value, double least, double most) {
  return value >= least && value <= most && value == std::floor(value);
}

// Reads the value of a field. Returns false if it has the wrong type or is out of range.
bool read_field(const std::string& name, FlatJson& json, WatchdogRequest& request) {
  if (name == "scope_id") {
    const auto text = json.string();
    if (text) request.scope = *text;
    return text.has_value();
  }
  const bool is_known = name == "pid" || name == "expiration_time" || name == "signal" || name == "version";
  if (!is_known) return json.is_string() ? json.string().has_value() : json.number().has_value() || json.word();
  const auto value = json.number();
  if (!value) return false;
  if (name == "version") return *value == 1;
  if (name == "expiration_time") request.expiration_time = *value;
  if (name == "pid") {
    if (!is_whole(*value, 1, kMaxPid)) return false;
    request.pid = static_cast<std::int64_t>(*value);
  }
  if (name == "signal") {
    if (!is_whole(*value, std::numeric_limits<std::int32_t>::min(), kMaxSignalNumber)) return false;
    request.signal = static_cast<int>(*value);
  }
  return true;
}

}  // namespace

base::Result<WatchdogRequest> parse_watchdog_request(std::string_view line) {
  const auto bad = [](std::string_view why) {
    return base::invalid_argument("a line in the watchdog's FIFO is no request of torch's FileTimerClient: {}", why);
  };
  if (line.size() > kMaxWatchdogLine) return bad("it is too long");
  FlatJson json(line);
  WatchdogRequest request;
  std::set<std::string> names;
  if (!json.take('{')) return bad("it is no JSON object");
  do {
    const auto name = json.string();
    if (!name || !json.take(':')) return bad("it is no JSON object");
    if (!names.insert(*name).second) return bad("a field is repeated");
    if (!read_field(*name, json, request)) return bad("a field has a wrong value");
  } while (json.take(','));
  if (!json.take('}') || !json.is_at_end()) return bad("it is no JSON object");
  for (const char* needed : {"pid", "scope_id", "expiration_time", "signal"}) {
    if (!names.contains(needed)) return bad("a field is missing");
  }
  return request;
}

void WatchdogLines::append(std::string_view bytes, const std::function<void(std::string_view)>& on_line) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    if (!is_too_long_ && rest_.size() + part.size() <= kMaxWatchdogLine) {
      rest_.append(part);
    } else if (!is_too_long_) {
      is_too_long_ = true;
      ++dropped_;
      rest_.clear();
    }
    if (end == std::string_view::npos) return;
    if (!is_too_long_) on_line(rest_);
    is_too_long_ = false;
    rest_.clear();
  }
}

}  // namespace muster::agent::job
