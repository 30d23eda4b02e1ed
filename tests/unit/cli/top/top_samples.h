// Jobs, hosts and answers for tests of `muster top`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/top/top_frame.h"
#include "cli/top/top_state.h"

namespace muster::testing_support {

inline constexpr base::WallTime kTopTime{std::chrono::seconds(1'000)};

inline v1::Job top_job(const std::string& id, v1::JobState state = v1::JOB_STATE_RUNNING, int size = 4) {
  v1::Job job;
  job.set_id(id);
  job.set_state(state);
  job.set_size(size);
  job.add_command("./train");
  job.mutable_started()->set_seconds(900);
  return job;
}

inline v1::LauncherHost top_host(const std::string& name, int cpu = 50) {
  v1::LauncherHost host;
  host.set_name(name);
  host.set_slots(4);
  host.set_used_slots(2);
  host.set_agent(v1::AGENT_STATE_UP);
  host.set_memory_mib(64 * 1024);
  host.mutable_load()->set_cpu_percent(cpu);
  host.mutable_load()->set_memory_used_mib(32 * 1024);
  return host;
}

inline v1::RankLateness top_lateness(int rank, const std::string& host) {
  v1::RankLateness late;
  late.set_rank(rank);
  late.set_host(host);
  late.set_late(90);
  late.set_operations(100);
  late.set_median_us(12'000);
  late.set_score(0.1);
  return late;
}

// Returns an answer to what `state` asks: `jobs` jobs j0, j1, … of which it has the asked rows, and `hosts` hosts n0,
// n1, …
inline cli::TopAnswer top_answer(const cli::TopState& state, int jobs, int hosts) {
  cli::TopAnswer answer{.query = state.query()};
  answer.rows.first = std::min<std::int64_t>(answer.query.first, jobs);
  answer.rows.total = jobs;
  for (std::int64_t row = answer.rows.first;
       row < std::min<std::int64_t>(answer.query.first + answer.query.count, jobs); ++row) {
    answer.rows.jobs.push_back(top_job(fmt::format("j{}", row)));
  }
  for (int i = 0; i < hosts; ++i) answer.hosts.push_back(top_host(fmt::format("n{}", i)));
  answer.running = jobs;
  answer.at = kTopTime;
  return answer;
}

// Returns the state of a screen that has got top_answer().
inline cli::TopState top_state(int jobs, int hosts, int lines = 24, int columns = 80) {
  cli::TopState state("unix:/run/x.sock");
  state.set_time(kTopTime);
  state.resize(lines, columns);
  state.take(top_answer(state, jobs, hosts));
  return state;
}

inline cli::KeyPress typed(const std::string& text) {
  return {.key = cli::TopKey::kText, .text = text};
}

inline void press(cli::TopState& state, cli::TopKey key, int times = 1) {
  for (int i = 0; i < times; ++i) (void)state.apply({.key = key});
}

inline void type(cli::TopState& state, const std::string& text) {
  for (const char c : text) (void)state.apply(typed(std::string(1, c)));
}

// Returns the screen as text, a line each.
inline std::string screen_text(const cli::TopState& state) {
  std::string text;
  for (const cli::StyledLine& line : cli::frame_of(state).lines) text += cli::text_of(line) + "\n";
  return text;
}

}  // namespace muster::testing_support
