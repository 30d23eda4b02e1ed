// Read it in this order: world_bytes, runs_of, begin_run, continues; then world_of_bytes, add_hosts.
#include "proto/world_bytes.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/placement.h"
#include "proto/muster/v1/host_runs.pb.h"

namespace muster::proto {
namespace {

constexpr std::size_t kMostDigits = 18;  // of a number that fits into 63 bits

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string name_of_host(const v1::HostRun& run, int host) {
  if (run.digits() == 0) return run.prefix();
  return fmt::format("{}{:0{}}{}", run.prefix(), run.number() + static_cast<std::uint64_t>(host), run.digits(),
                     run.suffix());
}

bool has_pattern(const v1::WorldHost& host, std::int64_t first, std::int64_t step) {
  for (int k = 0; k < host.ranks_size(); ++k) {
    if (host.ranks(k) != first + k * step) return false;
  }
  return true;
}

// Sets the run's name to that of `host`, so that the next name is `next`. Returns false if no number in the name
// counts up.
bool set_name(const v1::WorldHost& host, const std::string& next, v1::HostRun& run) {
  const std::string& name = host.name();
  for (std::size_t end = name.size(); end > 0;) {
    if (!is_digit(name[end - 1])) {
      --end;
      continue;
    }
    std::size_t begin = end;
    while (begin > 0 && is_digit(name[begin - 1]) && end - begin < kMostDigits) --begin;
    run.set_prefix(name.substr(0, begin));
    run.set_number(static_cast<std::uint64_t>(std::stoull(name.substr(begin, end - begin))));
    run.set_digits(static_cast<std::uint32_t>(end - begin));
    run.set_suffix(name.substr(end));
    if (name_of_host(run, 0) == name && name_of_host(run, 1) == next) return true;
    end = begin;
  }
  return false;
}

// Returns the run that begins with these two hosts. nullopt if they are no run.
std::optional<v1::HostRun> begin_run(const v1::WorldHost& one, const v1::WorldHost& two) {
  v1::HostRun run;
  if (one.ranks().empty() || one.ranks_size() != two.ranks_size() || !set_name(one, two.name(), run)) return {};
  run.set_hosts(1);
  run.set_first_rank(one.ranks(0));
  run.set_ranks(one.ranks_size());
  run.set_rank_step(one.ranks_size() > 1 ? one.ranks(1) - one.ranks(0) : 1);
  run.set_host_step(two.ranks(0) - one.ranks(0));
  if (!has_pattern(one, run.first_rank(), run.rank_step())) return {};
  return run;
}

bool continues(const v1::HostRun& run, const v1::WorldHost& host) {
  const std::int64_t first = run.first_rank() + std::int64_t{run.hosts()} * run.host_step();
  return host.ranks_size() == run.ranks() && has_pattern(host, first, run.rank_step()) &&
         name_of_host(run, run.hosts()) == host.name();
}

// Returns nullopt if no run is shorter than its hosts. A World with runs has no other hosts, because their order
// counts.
std::optional<v1::HostRuns> runs_of(const v1::World& world) {
  v1::HostRuns runs;
  for (int i = 0; i < world.hosts_size();) {
    auto run = i + 1 < world.hosts_size() ? begin_run(world.hosts(i), world.hosts(i + 1)) : std::nullopt;
    if (!run) {
      const v1::WorldHost& host = world.hosts(i);
      run.emplace();
      run->set_prefix(host.name());
      run->set_hosts(1);
      run->set_first_rank(host.ranks().empty() ? 0 : host.ranks(0));
      run->set_ranks(host.ranks_size());
      run->set_rank_step(host.ranks_size() > 1 ? host.ranks(1) - host.ranks(0) : 1);
      if (!has_pattern(host, run->first_rank(), run->rank_step())) return std::nullopt;
      ++i;
    } else {
      for (++i; i < world.hosts_size() && continues(*run, world.hosts(i)); ++i) run->set_hosts(run->hosts() + 1);
    }
    *runs.add_runs() = *std::move(run);
  }
  return runs;
}

// Returns false if the World would have more hosts or ranks than a job can have.
bool add_hosts(const v1::HostRun& run, v1::World& world) {
  const std::int64_t hosts = std::int64_t{world.hosts_size()} + std::max(run.hosts(), 0);
  if (hosts > model::kMaxRanks || std::int64_t{run.hosts()} * std::max(run.ranks(), 0) > model::kMaxRanks) return false;
  if (run.digits() > kMostDigits) return false;
  for (int i = 0; i < run.hosts(); ++i) {
    v1::WorldHost& host = *world.add_hosts();
    host.set_name(name_of_host(run, i));
    for (int k = 0; k < run.ranks(); ++k) {
      host.add_ranks(
          static_cast<int>(run.first_rank() + std::int64_t{i} * run.host_step() + std::int64_t{k} * run.rank_step()));
    }
  }
  return true;
}

}  // namespace

std::string world_bytes(v1::World world) {
  const auto runs = runs_of(world);
  if (!runs) return world.SerializeAsString();
  world.clear_hosts();
  return world.SerializeAsString() + runs->SerializeAsString();
}

std::optional<v1::World> world_of_bytes(const std::string& bytes) {
  v1::World world;
  v1::HostRuns runs;
  if (!world.ParseFromString(bytes) || !runs.ParseFromString(bytes)) return std::nullopt;
  for (const v1::HostRun& run : runs.runs()) {
    if (!add_hosts(run, world)) return std::nullopt;
  }
  return world;
}

}  // namespace muster::proto
