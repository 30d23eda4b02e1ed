#include "model/host_group.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/shortened.h"

namespace muster::model {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_byte(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
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
    if ((is_host || looks_like_address(word)) && plain.ends_with(" at ") && text.substr(at).starts_with(" port ")) {
      plain.resize(plain.size() - 4);
      plain += " on";
    } else if (is_host) {
      plain += "HOST";
    } else {
      plain += looks_like_address(word) ? std::string_view("ADDRESS") : word;
    }
    plain += mark;
  }
  return plain;
}

std::vector<std::string> group_host_texts(const std::vector<HostText>& texts, std::size_t most_lines) {
  std::map<std::string, std::vector<std::string>> hosts_of;  // by text without the host
  std::set<std::pair<std::string, std::string>> known;       // texts without the host, and hosts
  std::vector<std::string> keys;
  for (const HostText& each : texts) {
    keys.push_back(without_host(without_prefix(each.text, each.host), each.host));
    if (!each.host.empty() && known.emplace(keys.back(), each.host).second) hosts_of[keys.back()].push_back(each.host);
  }
  std::vector<std::string> lines;
  std::size_t unnamed = 0;
  const auto add = [&](std::size_t hosts, std::string line) {
    if (lines.size() < most_lines) {
      lines.push_back(base::shortened(line, kLongestGroupLine));
    } else {
      unnamed += hosts;
    }
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::vector<std::string>& hosts = hosts_of[keys[i]];
    const bool is_alone = texts[i].host.empty() || (!hosts.empty() && hosts.size() < kFewestGrouped);
    if (is_alone) {
      add(1, texts[i].text);
    } else if (!hosts.empty()) {
      add(hosts.size(), fmt::format("{} hosts {}: {}", format_count(hosts.size()), short_host_list(hosts), keys[i]));
      hosts.clear();  // the line is written
    }
  }
  if (unnamed > 0) lines.push_back(fmt::format("and {} more hosts, for other reasons", format_count(unnamed)));
  return lines;
}

std::string short_reason(std::string_view text, std::string_view host) {
  const std::string_view rest = host.empty() ? text : without_prefix(text, host);
  return std::string(rest.substr(0, rest.find("; ")));
}

std::string describe_not_up(const std::vector<HostText>& hosts) {
  constexpr std::size_t kLongestReason = 100;
  constexpr std::size_t kMostBytes = 260;
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;  // each reason, and its hosts
  std::map<std::string, std::size_t> index_of;
  for (const HostText& each : hosts) {
    const std::string reason = without_host(short_reason(each.text, each.host), each.host);
    const auto [found, is_new] = index_of.try_emplace(base::shortened(reason, kLongestReason), groups.size());
    if (is_new) groups.emplace_back(found->first, std::vector<std::string>());
    groups[found->second].second.push_back(each.host);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& one, const auto& other) { return one.second.size() > other.second.size(); });
  std::string text;
  std::size_t unnamed = 0;
  for (const auto& [reason, names] : groups) {
    std::string part = fmt::format("{}{}: {}", text.empty() ? "" : "; ", short_host_list(names), reason);
    if (unnamed > 0 || (!text.empty() && text.size() + part.size() > kMostBytes)) {
      unnamed += names.size();
    } else {
      text += part;
    }
  }
  if (unnamed > 0) text += fmt::format("; and {} more", format_count(unnamed));
  return text;
}

std::string describe_waiting(std::size_t up, std::size_t total, const std::vector<std::string>& waiting) {
  const std::string text = fmt::format("{} of {} hosts are up", format_count(up), format_count(total));
  return waiting.empty() ? text : fmt::format("{}; waiting for {}", text, short_host_list(waiting, kShortWait));
}

}  // namespace muster::model
