#include "cli/options/host_choice.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/help/base_names.h"
#include "model/host_group.h"

namespace muster::cli::inline options {
namespace {

// Returns each name once, in order.
std::vector<std::string> names_of(const std::vector<model::HostSpec>& hosts) {
  std::set<std::string> known;
  std::vector<std::string> names;
  for (const model::HostSpec& host : hosts) {
    if (known.insert(host.name).second) names.push_back(host.name);
  }
  return names;
}

std::vector<model::HostSpec> entries_of(const std::set<std::string>& names, const std::vector<model::HostSpec>& hosts) {
  std::vector<model::HostSpec> entries;
  std::ranges::copy_if(hosts, std::back_inserter(entries),
                       [&](const model::HostSpec& host) { return names.contains(host.name); });
  return entries;
}

const HostHealth* find_problem(const std::vector<HostHealth>& health, const std::string& host) {
  const auto found = std::ranges::find(health, host, &HostHealth::host);
  return found == health.end() || found->problem.empty() ? nullptr : &*found;
}

// Names each host in a note of its own, or many hosts in one note.
void add_choice_notes(const std::vector<model::HostText>& problems, const std::vector<std::string>& spares,
                      std::vector<std::string>& notes) {
  if (problems.size() < model::kFewestGrouped) {
    for (const auto& [host, problem] : problems) notes.push_back(fmt::format("{} is left out: {}", host, problem));
  } else {
    notes.push_back(fmt::format("{} hosts are left out: {}", model::format_count(problems.size()),
                                model::describe_not_up(problems)));
  }
  if (spares.size() < model::kFewestGrouped) {
    for (const std::string& host : spares) notes.push_back(fmt::format("{} is spare", host));
  } else {
    notes.push_back(fmt::format("{} are spare", model::short_host_list(spares)));
  }
}

}  // namespace

Result<HostNumbers> parse_host_numbers(std::string_view text, std::string_view label) {
  HostNumbers numbers{.ranges = {}, .label = std::string(label)};
  for (const std::string_view part : base::split(text, ',')) {
    const std::string_view range = base::trim(part);
    const auto dash = range.find('-');
    const auto first = base::parse_decimal(range.substr(0, dash), model::kMaxHosts - 1);
    const auto last =
        dash == std::string_view::npos ? first : base::parse_decimal(range.substr(dash + 1), model::kMaxHosts - 1);
    if (!first || !last || *last < *first) {
      return base::invalid_argument("{}: '{}' is not a list of host numbers: write it as 0-3,5, counting from 0", label,
                                    base::printable(text));
    }
    numbers.ranges.emplace_back(static_cast<int>(*first), static_cast<int>(*last));
  }
  return numbers;
}

Result<std::vector<model::HostSpec>> pick_hosts(const HostNumbers& numbers, const std::vector<model::HostSpec>& hosts) {
  const std::vector<std::string> names = names_of(hosts);
  std::set<std::string> wanted;
  for (const auto& [first, last] : numbers.ranges) {
    if (static_cast<std::size_t>(last) >= names.size()) {
      return base::invalid_argument(
          "{}: no host has the number {}: {}; name hosts by -H, or run inside an allocation", numbers.label, last,
          names.empty() ? "no hosts are listed"
                        : fmt::format("the {} hosts are numbered from 0 to {}", names.size(), names.size() - 1));
    }
    for (int number = first; number <= last; ++number) wanted.insert(names[static_cast<std::size_t>(number)]);
  }
  return entries_of(wanted, hosts);
}

Result<HostChoice> leave_spares_out(int spares, const std::vector<HostHealth>& health,
                                    const std::vector<model::HostSpec>& hosts) {
  const std::vector<std::string> names = names_of(hosts);
  if (static_cast<std::size_t>(spares) >= names.size()) {
    return base::invalid_argument("--spares {} leaves no host for the job: {} known", spares,
                                  names.size() == 1 ? "one is" : fmt::format("{} are", names.size()));
  }
  const std::size_t needed = names.size() - static_cast<std::size_t>(spares);
  HostChoice choice;
  std::set<std::string> taken;
  std::set<std::string> spare;
  std::vector<model::HostText> problems;
  std::vector<std::string> spare_names;
  for (const std::string& name : names) {
    if (const HostHealth* bad = find_problem(health, name)) {
      problems.push_back({name, bad->problem});
    } else if (taken.size() < needed) {
      taken.insert(name);
    } else {
      spare.insert(name);
      spare_names.push_back(name);
    }
  }
  if (taken.size() < needed) {
    return base::unavailable("{} of the {} needed hosts are healthy; {}; see muster doctor", taken.size(), needed,
                             model::describe_not_up(problems));
  }
  add_choice_notes(problems, spare_names, choice.notes);
  choice.hosts = entries_of(taken, hosts);
  choice.spares = entries_of(spare, hosts);
  return choice;
}

}  // namespace muster::cli::options
