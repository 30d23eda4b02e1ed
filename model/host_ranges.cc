// Host names with ranges.
// Read format_host_list() and short_host_list() at the end first, then HostSeries, series_of(), pieces_of() and
// join_pieces().
#include "model/host_ranges.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::model {
namespace {

constexpr std::size_t kMostDigits = 9;  // as in host lists

bool is_digit_char(char c) {
  return c >= '0' && c <= '9';
}

// Names that differ in one number only. Numbers with leading zeros go only with numbers of the same length.
struct HostSeries {
  NameParts parts;
  std::size_t width = 0;           // digits of padded numbers; 0 if they are not padded
  std::vector<std::string> names;  // the first kFewestGrouped ones
  std::vector<long> numbers;       // all, ascending
};

// Appends ranges of ascending numbers until `most` bytes are used. Returns how many numbers they have; at least one
// range is appended.
std::size_t add_ranges(const HostSeries& series, std::size_t most, std::string& text) {
  const std::vector<long>& numbers = series.numbers;
  std::size_t done = 0;
  while (done < numbers.size()) {
    std::size_t last = done;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    std::string range = fmt::format("{}{:0{}}", done == 0 ? "" : ",", numbers[done], series.width);
    if (last > done) range += fmt::format("-{:0{}}", numbers[last], series.width);
    if (done > 0 && text.size() + range.size() > most) break;
    text += range;
    done = last + 1;
  }
  return done;
}

// One or more hosts as one piece of a list.
struct HostPiece {
  std::string before;  // the piece is before + inner + after; further brackets may be put into `before`
  std::string inner;   // "[1-4]"; empty if the piece is one name
  std::string after;
  std::size_t hosts = 1;
  std::optional<std::size_t> series;  // the index of its only series, which may be cut

  std::string text() const { return before + inner + after; }
};

using Split = NameParts (*)(std::string_view name);

std::vector<HostSeries> series_of(const std::vector<std::string>& hosts, Split split) {
  std::vector<NameParts> all;
  all.reserve(hosts.size());
  std::map<std::tuple<std::string, std::string, std::size_t>, bool> is_padded;  // by parts and length of the number
  for (const std::string& host : hosts) {
    const NameParts& parts = all.emplace_back(split(host));
    if (parts.number.empty()) continue;
    is_padded[{parts.before, parts.after, parts.number.size()}] |=
        parts.number.front() == '0' && parts.number.size() > 1;
  }
  std::vector<HostSeries> series;
  std::map<std::tuple<std::string, std::string, std::size_t>, std::size_t> index_of;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    NameParts& parts = all[i];
    const bool has_number = !parts.number.empty();
    const bool padded = has_number && is_padded[{parts.before, parts.after, parts.number.size()}];
    const std::size_t width = padded ? parts.number.size() : 0;
    // "\n" is in no name, so a name without a number has a series of its own.
    const auto [found, is_new] =
        index_of.try_emplace({parts.before, has_number ? parts.after : "\n", width}, series.size());
    if (is_new) series.push_back({parts, width, {}, {}});
    HostSeries& one = series[found->second];
    if (has_number) one.numbers.push_back(std::stol(parts.number));
    if (one.names.size() < kFewestGrouped && std::ranges::find(one.names, hosts[i]) == one.names.end()) {
      one.names.push_back(hosts[i]);
    }
  }
  for (HostSeries& one : series) {
    std::ranges::sort(one.numbers);
    one.numbers.erase(std::unique(one.numbers.begin(), one.numbers.end()), one.numbers.end());
  }
  return series;
}

std::vector<HostPiece> pieces_of(const std::vector<HostSeries>& series) {
  std::vector<HostPiece> pieces;
  for (std::size_t i = 0; i < series.size(); ++i) {
    const HostSeries& one = series[i];
    if (one.numbers.size() < kFewestGrouped) {
      for (const std::string& name : one.names) {
        // As -H takes an IPv6 address.
        const bool is_bare = name.find(':') != std::string::npos && name.find('[') == std::string::npos;
        pieces.push_back({is_bare ? fmt::format("[{}]", name) : name, "", "", 1, std::nullopt});
      }
      continue;
    }
    std::string inner = "[";
    add_ranges(one, std::string::npos, inner);
    pieces.push_back({one.parts.before, inner + "]", one.parts.after, one.numbers.size(), i});
  }
  return pieces;
}

// Splits at the last number of all.
NameParts split_at_last(std::string_view name) {
  const std::size_t end = name.find_last_of("0123456789") + 1;
  if (end == 0) return {std::string(name), "", ""};
  const std::size_t begin = name.substr(0, end).find_last_not_of("0123456789") + 1;
  if (end - begin > kMostDigits) return {std::string(name), "", ""};
  return {std::string(name.substr(0, begin)), std::string(name.substr(begin, end - begin)),
          std::string(name.substr(end))};
}

// Returns the indexes of the pieces that have equal brackets, for each such set.
std::vector<std::vector<std::size_t>> alike_pieces(const std::vector<HostPiece>& pieces) {
  std::vector<std::vector<std::size_t>> sets;
  std::map<std::pair<std::string, std::string>, std::size_t> index_of;  // by inner and after
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].inner.empty()) continue;
    const auto [found, is_new] = index_of.try_emplace({pieces[i].inner, pieces[i].after}, sets.size());
    if (is_new) sets.emplace_back();
    sets[found->second].push_back(i);
  }
  return sets;
}

// Joins pieces with equal brackets whose names differ in one further number: rack1n[1-4], rack2n[1-4], rack3n[1-4].
// Returns false if no piece could be joined.
bool join_pieces(std::vector<HostPiece>& pieces) {
  std::map<std::size_t, std::vector<HostPiece>> replaced;  // by the index of the first piece
  std::vector<bool> is_joined(pieces.size(), false);
  for (const std::vector<std::size_t>& set : alike_pieces(pieces)) {
    std::vector<std::string> befores;
    for (const std::size_t index : set) befores.push_back(pieces[index].before);
    std::vector<HostPiece> outer = pieces_of(series_of(befores, split_at_last));
    if (outer.size() == befores.size()) continue;
    const HostPiece& first = pieces[set.front()];
    for (HostPiece& piece : outer) {
      // A later call looks for a number in `before` only.
      replaced[set.front()].push_back({piece.before, piece.inner + piece.after + first.inner, first.after,
                                       piece.hosts * first.hosts, std::nullopt});
    }
    for (const std::size_t index : set) is_joined[index] = true;
  }
  if (replaced.empty()) return false;
  std::vector<HostPiece> joined;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (const auto found = replaced.find(i); found != replaced.end()) {
      std::ranges::move(found->second, std::back_inserter(joined));
    } else if (!is_joined[i]) {
      joined.push_back(std::move(pieces[i]));
    }
  }
  pieces = std::move(joined);
  return true;
}

std::vector<HostPiece> joined_pieces(const std::vector<HostSeries>& series) {
  std::vector<HostPiece> pieces = pieces_of(series);
  while (join_pieces(pieces)) {
  }
  return pieces;
}

}  // namespace

bool looks_like_address(std::string_view word) {
  const auto dots = std::ranges::count(word, '.');
  const auto colons = std::ranges::count(word, ':');
  const bool is_hex = word.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
  const bool is_decimal = word.find_first_not_of("0123456789.") == std::string_view::npos;
  return (is_decimal && dots == 3 && is_digit_char(word.front()) && is_digit_char(word.back())) ||
         (is_hex && colons >= 2);
}

NameParts split_host_name(std::string_view name) {
  // An IPv6 address is never put in brackets, because a list takes its brackets for its own.
  if (name.find(':') != std::string_view::npos) return {std::string(name), "", ""};
  const std::size_t label = looks_like_address(name) ? name.size() : std::min(name.find('.'), name.size());
  for (const std::size_t scope : {label, name.size()}) {
    std::size_t end = scope;
    while (end > 0 && !is_digit_char(name[end - 1])) --end;
    std::size_t begin = end;
    while (begin > 0 && is_digit_char(name[begin - 1])) --begin;
    if (end > begin && end - begin <= kMostDigits) {
      return {std::string(name.substr(0, begin)), std::string(name.substr(begin, end - begin)),
              std::string(name.substr(end))};
    }
  }
  return {std::string(name), "", ""};
}

bool is_natural_before(std::string_view one, std::string_view other) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < one.size() && j < other.size()) {
    if (!is_digit_char(one[i]) || !is_digit_char(other[j])) {
      if (one[i] != other[j]) return one[i] < other[j];
      ++i;
      ++j;
      continue;
    }
    const auto number = [](std::string_view text, std::size_t& at) {
      const std::size_t begin = at;
      while (at < text.size() && is_digit_char(text[at])) ++at;
      std::string_view digits = text.substr(begin, at - begin);
      digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
      return digits;
    };
    const std::string_view left = number(one, i);
    const std::string_view right = number(other, j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
  }
  if (one.size() - i != other.size() - j) return one.size() - i < other.size() - j;
  return one < other;  // they differ at most in leading zeros
}

std::string format_host_list(const std::vector<std::string>& hosts) {
  std::vector<std::string> texts;
  for (const HostPiece& piece : joined_pieces(series_of(hosts, split_host_name))) texts.push_back(piece.text());
  return base::join(texts, ",");
}

std::string short_host_list(const std::vector<std::string>& hosts, std::size_t most) {
  const std::vector<HostSeries> series = series_of(hosts, split_host_name);
  std::vector<HostPiece> pieces = joined_pieces(series);
  // Only a piece of one series can be cut.
  const auto is_too_long = [&](const HostPiece& piece) { return !piece.series && piece.text().size() > most; };
  if (std::ranges::any_of(pieces, is_too_long)) pieces = pieces_of(series);
  std::string list;
  std::size_t named = 0;
  std::size_t total = 0;
  bool is_full = false;
  for (const HostPiece& piece : pieces) {
    total += piece.hosts;
    if (is_full) continue;
    const std::string_view comma = list.empty() ? "" : ",";
    if (list.size() + comma.size() + piece.text().size() <= most || (list.empty() && !piece.series)) {
      list += fmt::format("{}{}", comma, piece.text());
      named += piece.hosts;
      continue;
    }
    is_full = true;
    constexpr std::size_t kWorthwhile = 20;  // bytes for a cut list of numbers
    const std::size_t around = piece.before.size() + piece.after.size() + 3;
    if (!piece.series || (!list.empty() && list.size() + around + kWorthwhile > most)) continue;
    std::string cut = fmt::format("{}{}{}[", list, comma, piece.before);
    const std::size_t end = piece.after.size() + 1;
    named += add_ranges(series[*piece.series], std::max(most, end) - end, cut);
    list = fmt::format("{}]{}", cut, piece.after);
  }
  if (named < total) list += fmt::format(" and {} more", format_count(total - named));
  return list;
}

std::string format_count(std::size_t count) {
  std::string digits = fmt::format("{}", count);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace muster::model
