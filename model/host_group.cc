#include "model/host_group.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::model {
namespace {

constexpr std::size_t kMostDigits = 9;  // as in host lists

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_byte(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
}

bool is_address(std::string_view word) {
  const auto dots = std::ranges::count(word, '.');
  const auto colons = std::ranges::count(word, ':');
  const bool is_hex = word.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
  const bool is_decimal = word.find_first_not_of("0123456789.") == std::string_view::npos;
  return (is_decimal && dots == 3 && is_digit(word.front()) && is_digit(word.back())) || (is_hex && colons >= 2);
}

// A name around one of its numbers.
struct Parts {
  std::string before;
  std::string number;  // empty if the name has none
  std::string after;
};

// Splits at the last number of the first label, or of the whole name if that label has none or is an IP address's.
Parts split_name(const std::string& name) {
  const std::size_t label = is_address(name) ? name.size() : std::min(name.find('.'), name.size());
  for (const std::size_t scope : {label, name.size()}) {
    std::size_t end = scope;
    while (end > 0 && !is_digit(name[end - 1])) --end;
    std::size_t begin = end;
    while (begin > 0 && is_digit(name[begin - 1])) --begin;
    if (end > begin && end - begin <= kMostDigits) {
      return {name.substr(0, begin), name.substr(begin, end - begin), name.substr(end)};
    }
  }
  return {name, "", ""};
}

// Names that differ in one number only. Numbers with leading zeros go only with numbers of the same length.
struct Series {
  Parts parts;
  std::vector<std::string> names;
  std::vector<long> numbers;
};

std::string format_series(Series series) {
  if (series.names.size() < kFewestGrouped) return base::join(series.names, ",");
  std::ranges::sort(series.numbers);
  const std::size_t width = series.parts.number.front() == '0' ? series.parts.number.size() : 0;
  std::string ranges;
  for (std::size_t i = 0; i < series.numbers.size();) {
    std::size_t last = i;
    while (last + 1 < series.numbers.size() && series.numbers[last + 1] == series.numbers[last] + 1) ++last;
    if (!ranges.empty()) ranges += ',';
    ranges += fmt::format("{:0{}}", series.numbers[i], width);
    if (last > i) ranges += fmt::format("-{:0{}}", series.numbers[last], width);
    i = last + 1;
  }
  return fmt::format("{}[{}]{}", series.parts.before, ranges, series.parts.after);
}

// Returns the text without "HOST: " or "host HOST: " at its beginning.
std::string_view without_prefix(std::string_view text, std::string_view host) {
  std::string_view rest = text;
  if (rest.starts_with("host ")) rest.remove_prefix(5);
  const std::size_t end = rest.find(": ");
  if (end == std::string_view::npos) return text;
  const std::string_view name = rest.substr(0, end);
  const bool is_host =
      name == host || (name.ends_with(host) && name.substr(0, name.size() - host.size()).ends_with('@'));
  return is_host ? rest.substr(end + 2) : text;
}

}  // namespace

std::string format_host_list(const std::vector<std::string>& hosts) {
  std::vector<Parts> all;
  std::map<std::tuple<std::string, std::string, std::size_t>, bool> is_padded;  // by parts and length of the number
  for (const std::string& host : hosts) {
    const Parts& parts = all.emplace_back(split_name(host));
    if (parts.number.empty()) continue;
    is_padded[{parts.before, parts.after, parts.number.size()}] |=
        parts.number.front() == '0' && parts.number.size() > 1;
  }
  std::vector<Series> series;
  std::map<std::tuple<std::string, std::string, std::size_t>, std::size_t> index_of;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    Parts& parts = all[i];
    if (parts.number.empty()) {
      series.push_back({parts, {hosts[i]}, {}});
      continue;
    }
    const bool padded = is_padded[{parts.before, parts.after, parts.number.size()}];
    const auto [found, is_new] =
        index_of.try_emplace({parts.before, parts.after, padded ? parts.number.size() : 0}, series.size());
    if (is_new) series.push_back({parts, {}, {}});
    Series& one = series[found->second];
    const long number = std::stol(parts.number);
    if (std::ranges::find(one.numbers, number) != one.numbers.end()) continue;
    if (padded && parts.number.front() == '0') one.parts.number = parts.number;
    one.names.push_back(hosts[i]);
    one.numbers.push_back(number);
  }
  std::vector<std::string> texts;
  for (Series& one : series) texts.push_back(format_series(std::move(one)));
  return base::join(texts, ",");
}

std::string without_host(std::string_view text, std::string_view host) {
  std::string plain;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_name_byte(text[at]) && text[at] != ':') {
      plain += text[at++];
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && (is_name_byte(text[end]) || text[end] == ':')) ++end;
    std::string_view word = text.substr(at, end - at);
    std::string_view mark;  // punctuation after the word
    while (!word.empty() && (word.back() == ':' || word.back() == '.')) {
      mark = text.substr(at + word.size() - 1, mark.size() + 1);
      word.remove_suffix(1);
    }
    at = end;
    const bool is_host = !host.empty() && word == host;
    if ((is_host || is_address(word)) && plain.ends_with(" at ") && text.substr(at).starts_with(" port ")) {
      plain.resize(plain.size() - 4);
      plain += " on";
    } else if (is_host) {
      plain += "HOST";
    } else {
      plain += is_address(word) ? std::string_view("ADDRESS") : word;
    }
    plain += mark;
  }
  return plain;
}

std::vector<std::string> group_host_texts(const std::vector<HostText>& texts) {
  std::map<std::string, std::vector<std::string>> hosts_of;  // by text without the host
  std::vector<std::string> keys;
  for (const HostText& each : texts) {
    keys.push_back(without_host(without_prefix(each.text, each.host), each.host));
    if (!each.host.empty()) hosts_of[keys.back()].push_back(each.host);
  }
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::vector<std::string>& hosts = hosts_of[keys[i]];
    const bool is_alone = texts[i].host.empty() || (!hosts.empty() && hosts.size() < kFewestGrouped);
    if (is_alone) {
      lines.push_back(texts[i].text);
    } else if (!hosts.empty()) {
      lines.push_back(fmt::format("{} hosts {}: {}", hosts.size(), format_host_list(hosts), keys[i]));
      hosts.clear();  // the line is written
    }
  }
  return lines;
}

}  // namespace muster::model
