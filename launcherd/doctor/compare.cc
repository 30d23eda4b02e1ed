#include "launcherd/doctor/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace muster::launcherd::inline doctor {
namespace {

constexpr double kClocksApart = 1.0;  // seconds

struct Row {
  const char* name;
  const char* advice;
  std::string (*value)(const v1::HostFacts&);  // empty if unknown; such hosts are ignored
};

std::string or_none(const std::string& text) {
  return text.empty() ? "none" : text;
}

std::string gpus_of(const v1::HostFacts& facts) {
  std::map<std::string, int> models;
  for (const v1::Gpu& gpu : facts.hello().gpus()) ++models[gpu.model()];
  std::string text;
  for (const auto& [name, count] : models) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, name);
  return or_none(text);
}

const Row kRows[] = {
    {"kernel", "nothing to do unless a program needs the newer one",
     [](const v1::HostFacts& facts) { return facts.hello().kernel(); }},
    {"cores", "ranks get unequal shares: set the number of ranks per host, as -H n1:8,n2:4",
     [](const v1::HostFacts& facts) { return fmt::format("{}", facts.hello().cores_size()); }},
    {"gpus", "set the number of ranks per host, as -H n1:8,n2:4", gpus_of},
    {"nvidia driver", "install the same version everywhere: NCCL and CUDA expect it",
     [](const v1::HostFacts& facts) { return or_none(facts.nvidia_driver()); }},
    {"python", "put the same version first in PATH: pickles and packages differ between versions",
     [](const v1::HostFacts& facts) { return facts.python().version(); }},
    {"torch", "install the same version everywhere: ranks of different versions cannot talk to each other",
     [](const v1::HostFacts& facts) {
       return facts.python().version().empty() ? std::string() : or_none(facts.python().torch());
     }},
    {"containment",
     "a failed job leaves different processes behind on each host: use the same containment on all hosts",
     [](const v1::HostFacts& facts) { return facts.hello().containment(); }},
};

void add(Difference& difference, const std::string& value, std::size_t host) {
  const auto known = std::ranges::find(difference.values, value, [](const auto& entry) { return entry.first; });
  if (known == difference.values.end()) {
    difference.values.push_back({value, {host}});
  } else {
    known->second.push_back(host);
  }
}

// Compares the earliest clock with the latest, which covers every pair of hosts. Subtracts the possible error of the
// measurement.
std::optional<Difference> compare_clocks(const std::vector<HostFindings>& findings) {
  Difference difference{"clock", "the hosts' clocks are more than 1 s apart: set them by NTP (chronyc makestep)", {}};
  double most = -1e300;
  double least = 1e300;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    if (!findings[i].clock || !findings[i].facts) continue;
    const double offset = std::chrono::duration<double>(findings[i].clock->offset).count();
    const double uncertainty = std::chrono::duration<double>(findings[i].clock->uncertainty).count();
    most = std::max(most, offset - uncertainty);
    least = std::min(least, offset + uncertainty);
    add(difference, fmt::format("{:+.1f} s", offset), i);
  }
  if (most - least > kClocksApart) return difference;
  return std::nullopt;
}

}  // namespace

std::vector<Difference> compare_hosts(const std::vector<HostFindings>& findings) {
  std::vector<Difference> differences;
  for (const Row& row : kRows) {
    Difference difference{row.name, row.advice, {}};
    for (std::size_t i = 0; i < findings.size(); ++i) {
      const std::string value = findings[i].facts ? row.value(*findings[i].facts) : "";
      if (!value.empty()) add(difference, value, i);
    }
    if (difference.values.size() > 1) differences.push_back(std::move(difference));
  }
  if (auto clocks = compare_clocks(findings)) differences.push_back(std::move(*clocks));
  return differences;
}

}  // namespace muster::launcherd::doctor
