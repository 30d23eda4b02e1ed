// The parsers of host lists and hostfiles.
// Read HostListParser first, then parse_line() and parse_setting() for hostfiles.
#include "model/host_spec.h"

#include <algorithm>
#include <cstddef>

#include "base/net.h"
#include "base/strings.h"

namespace muster::model {
namespace {

using base::Code;
using base::Result;
using base::Status;

// RFC 1123 allows host names of 253 characters. User names get the same limit.
constexpr std::size_t kMaxNameLength = 253;
constexpr int kMaxPort = 65535;

bool is_name_start(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameLength && is_name_start(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_name_start(c) || c == '.' || c == '-'; });
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

// Quotes a piece of the user's text for an error: printable, and at most kShown bytes.
std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 60;
  return text.size() <= kShown ? fmt::format("'{}'", base::printable(text))
                               : fmt::format("'{}…'", base::printable(text.substr(0, kShown)));
}

// A piece of the input with its position, so that messages can name the column.
struct Piece {
  std::string_view text;
  std::size_t column = 1;  // column of the first byte, from 1

  Piece sub(std::size_t from, std::size_t count = std::string_view::npos) const {
    return {text.substr(from, count), column + from};
  }
};

class HostListParser {
 public:
  // `names_column` says whether errors have the form "where:column" (files) or only `where` (-H).
  HostListParser(std::string_view where, bool names_column) : where_(where), names_column_(names_column) {}

  Result<std::vector<HostSpec>> parse(Piece list) const {
    std::vector<HostSpec> hosts;
    std::size_t begin = 0;
    bool in_brackets = false;
    for (std::size_t i = 0; i <= list.text.size(); ++i) {
      const char c = i < list.text.size() ? list.text[i] : ',';
      if (c == '[') in_brackets = true;
      if (c == ']') in_brackets = false;
      if (c != ',' || (in_brackets && i < list.text.size())) continue;
      MUSTER_RETURN_IF_ERROR(parse_item(trimmed(list.sub(begin, i - begin)), hosts));
      begin = i + 1;
    }
    return hosts;
  }

  Status fail(const Piece& at, std::string_view problem) const {
    const std::string place = names_column_ ? fmt::format("{}:{}", where_, at.column) : std::string(where_);
    return {Code::kInvalidArgument, fmt::format("{}: {}", place, problem)};
  }

  static Piece trimmed(const Piece& piece) {
    const std::string_view text = base::trim(piece.text);
    return text.empty() ? Piece{{}, piece.column}
                        : Piece{text, piece.column + static_cast<std::size_t>(text.data() - piece.text.data())};
  }

  Result<int> number(const Piece& at, std::string_view what, int min, int max) const {
    const auto value = base::parse_decimal(at.text, max);
    if (!value || *value < min) {
      return fail(at, fmt::format("{} must be a number from {} to {}, not {}", what, min, max, in_quotes(at.text)));
    }
    return static_cast<int>(*value);
  }

  Result<std::string> user_name(const Piece& at) const {
    if (!is_name(at.text)) {
      return fail(at, fmt::format("{} is not a user name: letters, digits, '_', '.', '-' are allowed, not '-' or '.' "
                                  "first",
                                  in_quotes(at.text)));
    }
    return std::string(at.text);
  }

 private:
  Status parse_item(Piece item, std::vector<HostSpec>& hosts) const {
    if (item.text.empty()) return fail(item, "a host name is missing: items are name[:slots], separated by commas");
    const Piece whole = item;
    HostSpec spec;
    if (const auto at = item.text.rfind('@'); at != std::string_view::npos) {
      MUSTER_ASSIGN_OR_RETURN(spec.user, user_name(item.sub(0, at)));
      item = item.sub(at + 1);
    }
    const auto close = item.text.find(']');
    const bool is_address =
        item.text.starts_with('[') && item.text.substr(0, close).find(':') != std::string_view::npos;
    std::size_t name_end = std::min(item.text.find(':'), item.text.size());
    if (is_address) name_end = close == std::string_view::npos ? item.text.size() : close + 1;
    if (name_end < item.text.size()) {
      const Piece tail = item.sub(name_end);
      if (!is_address && tail.text.substr(1).find(':') != std::string_view::npos) {
        return fail(item, fmt::format("{} has more than one ':': write name:slots, and IPv6 addresses in brackets, "
                                      "[fe80::1]:slots",
                                      in_quotes(item.text)));
      }
      if (!tail.text.starts_with(':')) {
        return fail(tail, fmt::format("{} after an address: only :slots may follow", in_quotes(tail.text)));
      }
      MUSTER_ASSIGN_OR_RETURN(spec.slots, number(tail.sub(1), "the number of slots", 1, kMaxSlotsPerHost));
    }
    const Piece name = item.sub(0, name_end);
    return is_address ? add_address(name, spec, hosts) : add_names(name, whole, spec, hosts);
  }

  // `name` has the form "[…]".
  Status add_address(const Piece& name, HostSpec spec, std::vector<HostSpec>& hosts) const {
    const std::string_view bare = name.text.substr(1, name.text.size() - (name.text.ends_with(']') ? 2 : 1));
    const auto percent = bare.find('%');
    const bool scope_ok = percent == std::string_view::npos || is_name(bare.substr(percent + 1));
    if (!name.text.ends_with(']') || !scope_ok || !base::IpAddress::parse(bare).ok()) {
      return fail(name, fmt::format("{} is not an IPv6 address in brackets", in_quotes(name.text)));
    }
    spec.name = bare;
    return add(name, std::move(spec), hosts);
  }

  // Adds a name, or the names of its ranges: n[01-16,20], rack[1-2]n[01-16]-ib. The last range counts fastest.
  Status add_names(const Piece& name, const Piece& whole, const HostSpec& spec, std::vector<HostSpec>& hosts) const {
    std::vector<std::string> names = {""};
    Piece rest = name;
    for (auto open = rest.text.find('['); open != std::string_view::npos; open = rest.text.find('[')) {
      const auto close = rest.text.find(']', open);
      if (close == std::string_view::npos) {
        return fail(name, fmt::format("{} opens a range with '[' and does not close it", in_quotes(whole.text)));
      }
      std::vector<std::string> numbers;
      const Piece ranges = rest.sub(open + 1, close - open - 1);
      for (const std::string_view part : base::split(ranges.text, ',')) {
        const Piece at = ranges.sub(static_cast<std::size_t>(part.data() - ranges.text.data()), part.size());
        MUSTER_RETURN_IF_ERROR(add_range(at, numbers));
      }
      if (names.size() * numbers.size() > static_cast<std::size_t>(kMaxHosts)) return too_many(ranges);
      names = combine(names, rest.text.substr(0, open), numbers);
      rest = rest.sub(close + 1);
    }
    for (const std::string& begin : names) {
      HostSpec host = spec;
      host.name = begin + std::string(rest.text);
      if (!is_name(host.name)) {
        return fail(name, fmt::format("{} is not a host name: letters, digits, '_', '.', '-' are allowed, not '-' or "
                                      "'.' first",
                                      in_quotes(host.name)));
      }
      MUSTER_RETURN_IF_ERROR(add(name, std::move(host), hosts));
    }
    return base::ok_status();
  }

  static std::vector<std::string> combine(const std::vector<std::string>& names, std::string_view between,
                                          const std::vector<std::string>& numbers) {
    std::vector<std::string> combined;
    combined.reserve(names.size() * numbers.size());
    for (const std::string& name : names) {
      for (const std::string& number : numbers) combined.push_back(fmt::format("{}{}{}", name, between, number));
    }
    return combined;
  }

  // Parses "01-16" or "20". The width of the first number is kept.
  Status add_range(const Piece& at, std::vector<std::string>& numbers) const {
    constexpr long kMaxNumber = 999'999'999;
    const auto dash = at.text.find('-');
    const std::string_view first_text = at.text.substr(0, dash);
    const auto first = base::parse_decimal(first_text, kMaxNumber);
    const auto last =
        dash == std::string_view::npos ? first : base::parse_decimal(at.text.substr(dash + 1), kMaxNumber);
    if (!first || !last || first_text.size() > 9) {
      return fail(at, fmt::format("{} is not a range of numbers such as 01-16", in_quotes(at.text)));
    }
    if (*last < *first) return fail(at, fmt::format("the range {} runs backwards", in_quotes(at.text)));
    if (*last - *first + 1 > kMaxHosts - static_cast<long>(numbers.size())) return too_many(at);
    for (long number = *first; number <= *last; ++number) {
      numbers.push_back(fmt::format("{:0{}}", number, first_text.size()));
    }
    return base::ok_status();
  }

  Status add(const Piece& at, HostSpec host, std::vector<HostSpec>& hosts) const {
    if (hosts.size() >= static_cast<std::size_t>(kMaxHosts)) return too_many(at);
    hosts.push_back(std::move(host));
    return base::ok_status();
  }

  Status too_many(const Piece& at) const { return fail(at, fmt::format("more than {} hosts", kMaxHosts)); }

  std::string_view where_;
  bool names_column_;
};

// The settings on a hostfile's line after the hosts.
struct LineSettings {
  std::optional<int> slots;
  std::optional<int> max_slots;
  int port = 0;
  std::string user;
};

enum class SettingKey { kSlots, kMaxSlots, kPort, kUser };

// Open MPI's hostfiles have several names for some settings.
std::optional<SettingKey> setting_key(std::string_view name) {
  static constexpr std::pair<std::string_view, SettingKey> kKeys[] = {
      {"slots", SettingKey::kSlots},        {"cpu", SettingKey::kSlots},          {"count", SettingKey::kSlots},
      {"max_slots", SettingKey::kMaxSlots}, {"max-slots", SettingKey::kMaxSlots}, {"slots_max", SettingKey::kMaxSlots},
      {"slots-max", SettingKey::kMaxSlots}, {"port", SettingKey::kPort},          {"user", SettingKey::kUser},
      {"username", SettingKey::kUser},      {"user_name", SettingKey::kUser},     {"user-name", SettingKey::kUser}};
  const auto* found = std::ranges::find(kKeys, name, [](const auto& known) { return known.first; });
  return found == std::end(kKeys) ? std::nullopt : std::optional(found->second);
}

// `word` is text such as "slots=4". Open MPI also allows blanks around the '='.
Status parse_setting(const HostListParser& parser, const Piece& word, LineSettings& settings) {
  const auto equals = word.text.find('=');
  const std::string_view name = base::trim(word.text.substr(0, equals));
  const auto key = equals == std::string_view::npos ? std::nullopt : setting_key(name);
  if (!key) {
    return parser.fail(
        word, fmt::format("unknown word {}: use slots=N, max_slots=N, port=N or user=NAME", in_quotes(word.text)));
  }
  const Piece value = HostListParser::trimmed(word.sub(equals + 1));
  const auto twice = [&] { return parser.fail(word, fmt::format("{} is given twice", name)); };
  if (*key == SettingKey::kSlots) {
    if (settings.slots) return twice();
    MUSTER_ASSIGN_OR_RETURN(settings.slots, parser.number(value, "slots", 1, kMaxSlotsPerHost));
  } else if (*key == SettingKey::kMaxSlots) {
    if (settings.max_slots) return twice();
    MUSTER_ASSIGN_OR_RETURN(settings.max_slots, parser.number(value, "max_slots", 1, kMaxSlotsPerHost));
  } else if (*key == SettingKey::kPort) {
    if (settings.port != 0) return twice();
    MUSTER_ASSIGN_OR_RETURN(settings.port, parser.number(value, "port", 1, kMaxPort));
  } else {
    if (!settings.user.empty()) return twice();
    MUSTER_ASSIGN_OR_RETURN(settings.user, parser.user_name(value));
  }
  return base::ok_status();
}

Status apply_settings(const HostListParser& parser, const Piece& at, const LineSettings& settings, HostSpec& host) {
  if (settings.slots && host.slots) {
    return parser.fail(at, fmt::format("the slots of {} are given twice, as :{} and as slots={}", host.name,
                                       *host.slots, *settings.slots));
  }
  if (!settings.user.empty() && !host.user.empty()) {
    return parser.fail(
        at, fmt::format("the user of {} is given twice, as {}@ and as user={}", host.name, host.user, settings.user));
  }
  if (settings.slots) host.slots = settings.slots;
  host.max_slots = settings.max_slots;
  host.port = settings.port;
  if (!settings.user.empty()) host.user = settings.user;
  if (host.slots && host.max_slots && *host.slots > *host.max_slots) {
    return parser.fail(
        at, fmt::format("{} has {} slots, more than its max_slots={}", host.name, *host.slots, *host.max_slots));
  }
  return base::ok_status();
}

std::size_t skip_blanks(std::string_view text, std::size_t at) {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

std::size_t skip_word(std::string_view text, std::size_t at) {
  while (at < text.size() && !is_blank(text[at])) ++at;
  return at;
}

// Splits a line at blanks. "slots = 4" is one word.
std::vector<Piece> split_line(const Piece& line) {
  const std::string_view text = line.text;
  std::vector<Piece> words;
  for (std::size_t begin = skip_blanks(text, 0); begin < text.size();) {
    std::size_t end = skip_word(text, begin);
    const std::size_t next = skip_blanks(text, end);
    const bool equals_follows = next < text.size() && text[next] == '=' && !words.empty();
    if (equals_follows) end = skip_word(text, next);
    if (!words.empty() && text[end - 1] == '=') end = skip_word(text, skip_blanks(text, end));
    words.push_back(line.sub(begin, end - begin));
    begin = skip_blanks(text, end);
  }
  return words;
}

Status parse_line(std::string_view where, const Piece& line, std::vector<HostSpec>& hosts) {
  const HostListParser parser(where, true);
  const std::vector<Piece> words = split_line(line);
  if (words.empty()) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(std::vector<HostSpec> found, parser.parse(words[0]));
  LineSettings settings;
  for (std::size_t i = 1; i < words.size(); ++i) MUSTER_RETURN_IF_ERROR(parse_setting(parser, words[i], settings));
  for (HostSpec& host : found) {
    MUSTER_RETURN_IF_ERROR(apply_settings(parser, words[0], settings, host));
    if (hosts.size() >= static_cast<std::size_t>(kMaxHosts)) {
      return parser.fail(words[0], fmt::format("more than {} hosts", kMaxHosts));
    }
    hosts.push_back(std::move(host));
  }
  return base::ok_status();
}

}  // namespace

Result<std::vector<HostSpec>> parse_host_list(std::string_view text, std::string_view where) {
  if (base::trim(text).empty()) {
    return base::invalid_argument("{}: the list of hosts is empty: name hosts as n1:4,n2:4", where);
  }
  return HostListParser(where, false).parse({text, 1});
}

Result<std::vector<HostSpec>> parse_hostfile(std::string_view content, std::string_view file_name) {
  std::vector<HostSpec> hosts;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (content.starts_with(kByteOrderMark)) content.remove_prefix(kByteOrderMark.size());
  std::size_t line_number = 0;
  for (std::string_view line : base::split(content, '\n')) {
    ++line_number;
    line = line.substr(0, std::min(line.find('#'), line.find("//")));
    MUSTER_RETURN_IF_ERROR(parse_line(fmt::format("{}:{}", file_name, line_number), {line, 1}, hosts));
  }
  if (hosts.empty()) {
    return base::invalid_argument("{}: no host is named: a line is 'n1 slots=4' or 'n1:4'", file_name);
  }
  return hosts;
}

bool is_host_name(std::string_view text) {
  return is_name(text) || (text.size() <= kMaxNameLength && base::IpAddress::parse(text).ok());
}

bool is_user_name(std::string_view text) {
  return is_name(text);
}

bool is_localhost(const HostSpec& host) {
  // With another user or a port, the user wants this machine's sshd.
  if (!host.user.empty() || host.port != 0) return false;
  if (host.name == "localhost") return true;
  const auto address = base::IpAddress::parse(host.name);
  return address.ok() && address->is_loopback();
}

std::string display_name(const HostSpec& host) {
  const std::string name = host.name.find(':') == std::string::npos ? host.name : fmt::format("[{}]", host.name);
  return host.user.empty() ? name : fmt::format("{}@{}", host.user, name);
}

}  // namespace muster::model
