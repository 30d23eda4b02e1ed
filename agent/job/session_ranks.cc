// The whole of SessionRanks. Read launch() and spawn() first, then the on_event() functions and is_over().

#include "agent/job/session_ranks.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "agent/job/agent_messages.h"
#include "agent/job/end_facts.h"
#include "agent/job/rank_containers.h"
#include "agent/job/rank_requests.h"
#include "base/clock.h"
#include "base/strings.h"
#include "model/exit_code.h"
#include "proto/convert.h"

namespace muster::agent::inline job {
namespace {

constexpr std::string_view kSizeEntry = "MUSTER_SIZE=";
constexpr long kLargestJob = 1 << 24;

}  // namespace

SessionRanks::SessionRanks(const SessionHost& host, Warden& warden, SessionStores& stores, SessionOutput& output,
                           Events events)
    : host_(host),
      warden_(warden),
      stores_(stores),
      output_(output),
      events_(std::move(events)),
      notifier_(host.loop),
      spawn_watch_(host.loop, events_.on_notice),
      servers_(host.loop, {.send = events_.send,
                           .on_notice = events_.on_notice,
                           .on_problem = events_.on_problem,
                           .pid_of = [this](int rank) { return running_.pid_of(rank); },
                           .kill = [this](int rank) { kill(rank); },
                           .on_lost = events_.on_lost}),
      inputs_(host.loop,
              [this](v1::InputTaken taken) {
                events_.send(message_with(&v1::AgentMessage::mutable_input_taken, std::move(taken)));
              }),
      commands_(host.loop, host.login_environment,
                {.send = events_.send,
                 .spawn = [this](const SpawnRequest& request) { return warden_.spawn(request); },
                 .signal = [this](int number, int signo) { return warden_.signal(number, signo); },
                 .shown = [this](int rank) { return live_.rank_of(rank).value_or(rank); }}),
      watchdog_(host.loop, clock_,
                {.on_notice = events_.on_notice,
                 .read_stacks = [this](std::uint64_t id, const std::set<int>& ranks) { read_stacks(id, ranks); },
                 .signal = [this](int rank, int signo) { notice_if_bad(warden_.signal(rank, signo)); }}),
      gpus_(host.loop, host.gpus),
      progress_file_(host.loop,
                     [this] {
                       v1::AgentMessage message;
                       message.mutable_progress();
                       events_.send(std::move(message));
                     }),
      world_watch_(host.loop,
                   {.ranks = [this] { return watched_ranks(); },
                    .send =
                        [this](v1::RankWorld world) {
                          events_.send(message_with(&v1::AgentMessage::mutable_rank_world, std::move(world)));
                        }}),
      arrival_report_(host.loop, [this](v1::ArrivalTimes times) {
        if (!events_.send_unnumbered) return;
        events_.send_unnumbered(message_with(&v1::AgentMessage::mutable_arrival_times, std::move(times)));
      }) {}

void SessionRanks::notice_if_bad(const base::Status& status) const {
  if (!status.ok()) events_.on_notice(status.message());
}

void SessionRanks::launch(const v1::Launch& launch, base::Status made) {
  wants_error_files_ = launch.wants_error_files();
  stores_.set_peers(launch);
  if (made.ok()) made = stores_.serve_ranks(launch);
  if (made.ok()) made = environment_.open(launch, environments_folder(warden_.session_dir()));
  const RankServers::Session session{warden_.session_dir(), stores_.secret(), stores_.keys(), host_.verbose};
  if (made.ok()) servers_.open_socket(launch, session);
  if (made.ok() && launch.serves_torch_watchdog()) made = watchdog_.open(warden_.session_dir());
  if (made.ok()) notice_if_bad(progress_file_.watch(launch.workdir(), launch.progress_file()));
  running_.add(launch);
  live_.add(launch.live_members());
  rank_table_.open(warden_.session_dir());
  if (launch.has_rank_table()) notice_if_bad(rank_table_.write(launch.rank_table()));
  std::vector<SpawnRequest> requests = rank_requests(launch, host_.login_environment, stores_.variables());
  rank_table_.apply(requests);
  environment_.apply(requests);
  gpus_.launch(requests);
  servers_.open(launch, session, requests);
  watch_worlds(requests);
  spawn(launch, std::move(requests), std::move(made));
}

void SessionRanks::add_world(const v1::AddWorld& world) {
  if (!world.launch().live_members().empty()) return add_live(world.launch());
  running_.add_spawned(world.launch());
  std::vector<SpawnRequest> requests = rank_requests(world.launch(), host_.login_environment, {});
  environment_.apply(requests);
  servers_.add_world(world, requests);
  spawn(world.launch(), std::move(requests), base::ok_status());
}

// Starts new processes of a job whose ranks change. Until the generation begins, nothing answers them.
void SessionRanks::add_live(const v1::Launch& launch) {
  running_.add(launch);
  live_.add(launch.live_members());
  std::set<int> local_ranks;
  for (const v1::LiveMember& member : launch.live_members()) local_ranks.insert(member.local_rank());
  if (LiveKeys* const keys = stores_.live()) keys->hold(local_ranks);
  std::vector<SpawnRequest> requests = rank_requests(launch, host_.login_environment, stores_.variables());
  rank_table_.apply(requests);
  environment_.apply(requests);
  gpus_.launch(requests);
  watch_worlds(requests);
  spawn(launch, std::move(requests), base::ok_status());
}

void SessionRanks::watch_worlds(const std::vector<SpawnRequest>& requests) {
  for (const SpawnRequest& request : requests) {
    const auto entry = std::ranges::find_if(request.env, [](const auto& one) { return one.starts_with(kSizeEntry); });
    if (entry == request.env.end()) continue;
    const auto size = base::parse_decimal(entry->substr(kSizeEntry.size()), kLargestJob);
    sizes_[request.rank] = static_cast<int>(size.value_or(0));
  }
  watch_sizes();
}

// Elastic jobs give all ranks one size. In other jobs it is that of all ranks, also of those with roles.
void SessionRanks::watch_sizes() {
  world_watch_.begin();
  if (!sizes_.empty()) arrival_report_.begin(warden_.session_dir(), sizes_.rbegin()->second);
}

std::vector<WatchedRank> SessionRanks::watched_ranks() const {
  std::vector<WatchedRank> watched;
  for (const auto& [rank, pid] : running_.pids()) {
    const auto size = sizes_.find(rank);
    if (size != sizes_.end())
      watched.push_back({rank, pid, size->second, servers_.has_contact(rank), servers_.serves_pmi()});
  }
  return watched;
}

void SessionRanks::begin_generation(const v1::BeginGeneration& order) {
  const LiveRanks before = std::exchange(live_, {});
  live_.begin(order.members());
  sizes_.clear();
  for (const v1::LiveMember& member : order.members()) sizes_[member.number()] = member.size();
  watch_sizes();
  servers_.begin_generation(live_.ranks());
  if (order.has_rank_table()) notice_if_bad(rank_table_.write(order.rank_table()));
  const base::Status begun = stores_.begin_generation(order);
  notice_if_bad(begun);
  LiveKeys* const keys = stores_.live();
  if (!begun.ok() || keys == nullptr) return;
  for (const v1::LiveMember& member : order.members()) {
    const auto local_rank = before.local_rank_of(member.number());
    if (local_rank) keys->answer(*local_rank, numbers_text(member));
  }
}

void SessionRanks::checked_in(int local_rank) {
  const auto number = live_.at_local_rank(local_rank);
  if (!number) return;
  v1::AgentMessage message;
  message.mutable_check_in()->set_number(*number);
  events_.send(std::move(message));
}

void SessionRanks::put_first(int rank) {
  const auto number = live_.at_rank(rank);
  if (!number) return;
  v1::AgentMessage message;
  message.mutable_first_put()->set_number(*number);
  events_.send(std::move(message));
}

void SessionRanks::first_collective(int generation) const {
  v1::AgentMessage message;
  message.mutable_first_collective()->set_generation(generation);
  events_.send(std::move(message));
}

void SessionRanks::notify(const v1::NotifyWorker& order) {
  const LiveKeys* const keys = stores_.live();
  const auto local_rank = live_.local_rank_of(order.number());
  const std::string address = keys != nullptr && local_rank ? keys->notification_address(*local_rank) : "";
  if (address.empty()) return notified(order, base::unavailable("the process has named no notification service"));
  notifier_.notify(address, order.timestamp(), static_cast<std::uint8_t>(order.result()),
                   [this, order](const base::Status& result) { notified(order, result); });
}

void SessionRanks::notified(const v1::NotifyWorker& order, const base::Status& result) const {
  v1::AgentMessage message;
  v1::WorkerNotified& answer = *message.mutable_worker_notified();
  answer.set_number(order.number());
  answer.set_timestamp(order.timestamp());
  answer.set_error(result.message());
  events_.send(std::move(message));
}

void SessionRanks::end_some(const v1::EndRanks& order) {
  for (const int rank : order.ranks()) {
    if (!running_.is_running(rank)) continue;
    notice_if_bad(warden_.signal(rank, SIGTERM));
    kills_[rank] = host_.loop.after(std::chrono::milliseconds(order.grace_ms()), [this, rank] { kill(rank); });
  }
}

void SessionRanks::spawn(const v1::Launch& launch, std::vector<SpawnRequest> requests, base::Status made) {
  std::vector<std::string> names = servers_.variable_names();
  for (std::string& name : rank_table_.variable_names()) names.push_back(std::move(name));
  for (const auto& [name, value] : stores_.variables()) names.push_back(name);
  commands_.remember(launch, names, requests);
  const base::Status contained = put_in_containers(launch, names, requests);
  if (made.ok()) made = contained;
  spawn_watch_.expect(requests);
  for (int i = 0; i < launch.ranks_size(); ++i) {
    SpawnRequest& request = requests[static_cast<std::size_t>(i)];
    inputs_.plan(launch.ranks(i), request);
    const base::Status spawned = made.ok() ? warden_.spawn(request) : made;
    if (spawned.ok()) continue;
    RankStartFailed failed;
    failed.rank = request.rank;
    failed.message = spawned.message();
    if (!contained.ok()) failed.exit_code = model::kNotFound;
    on_event(failed);
  }
}

void SessionRanks::signal_all(const v1::SignalRanks& order) {
  if (order.once() && std::exchange(has_signalled_once_, true)) return;
  notice_if_bad(warden_.signal(-1, order.signal()));
}

void SessionRanks::kill_spawned(const v1::KillRanks& order) {
  for (const int rank : order.ranks()) {
    if (running_.is_spawned(rank) && running_.is_running(rank)) kill(rank);
  }
}

void SessionRanks::read_stacks(std::uint64_t id, const std::set<int>& ranks) {
  std::map<int, pid_t> pids;
  for (const int rank : ranks) {
    if (const pid_t pid = running_.pid_of(rank); pid != 0) pids.emplace(rank, pid);
  }
  events_.read_stacks(id, pids);
}

void SessionRanks::kill(int rank) {
  notice_if_bad(warden_.signal(rank, SIGKILL));
}

void SessionRanks::on_event(RankStarted& started) {
  if (is_command(started.rank)) return commands_.on_event(started);
  running_.started(started.rank, started.pid);
  gpus_.started(started, warden_.containment().pidns);
  output_.rank_started(started, inputs_.has_terminal(started.rank));
  inputs_.started(started);
  servers_.started(started);
  watchdog_.started(started.rank, started.pid_inside);
  events_.send(message_of(started));
  was_tried(started.rank);
}

void SessionRanks::was_tried(int rank) {
  if (!spawn_watch_.tried(rank)) return;
  v1::AgentMessage message;
  message.mutable_launched();
  events_.send(std::move(message));
}

void SessionRanks::on_event(RankStartFailed& failed) {
  if (is_command(failed.rank)) return commands_.on_event(failed);
  const v1::AgentMessage message = message_of(failed, base::monotonic_now());
  const model::RankEnd end = proto::rank_end_of(message.rank_start_failed());
  commands_.rank_over(failed.rank, model::describe(end));
  report_end(end);
  events_.send(message);
  was_tried(failed.rank);
  is_over(failed.rank);
}

void SessionRanks::on_event(RankExited& exited) {
  if (is_command(exited.rank)) return commands_.on_event(exited);
  progress_file_.check();
  v1::AgentMessage message = message_of(exited);
  if (exited.wait_status != 0) {
    v1::EndFacts facts = end_facts_of(exited, read_core_settings());
    if (facts.ByteSizeLong() > 0) *message.mutable_rank_exited()->mutable_facts() = std::move(facts);
  }
  servers_.judge(*message.mutable_rank_exited());
  watchdog_.judge(*message.mutable_rank_exited());
  const int shown = live_.rank_of(exited.rank).value_or(exited.rank);  // report_end() forgets it
  const model::RankEnd end = proto::rank_end_of(message.rank_exited());
  // Before report_end(), which forgets how users know the rank.
  commands_.rank_over(exited.rank, model::describe(end));
  report_end(end);
  const TorchError error = torch_errors_.ended(warden_.session_dir(), message.rank_exited(), shown);
  if (!error.line.empty()) events_.on_notice(error.line);
  if (wants_error_files_ && !error.content.empty()) events_.send(error_file_message(exited.rank, error.content));
  events_.send(message);
  if (exited.oom_suspected) {
    events_.on_notice(fmt::format(
        "rank {} was killed by a SIGKILL that Muster did not send. Memory ran out on this machine, and the kernel "
        "killed processes, perhaps this rank; see the kernel's log (dmesg)",
        shown));
  }
  output_.rank_exited(exited.rank);
  is_over(exited.rank);
}

// Reports the end to ranks with libmuster, by the rank that the process has now.
void SessionRanks::report_end(const model::RankEnd& end) {
  if (running_.is_spawned(end.rank)) return;
  LiveKeys* const keys = stores_.live();
  if (keys == nullptr) return servers_.rank_ended(end);
  const auto rank = live_.rank_of(end.rank);
  const auto local_rank = live_.local_rank_of(end.rank);
  if (!rank || !local_rank) return;
  keys->forget(*local_rank);
  live_.remove(end.rank);
  model::RankEnd of_rank = end;
  of_rank.rank = *rank;
  servers_.rank_ended(of_rank);
}

void SessionRanks::lose_all() {
  commands_.lose_all();
  for (const int rank : std::set<int>(running_.running())) {
    RankStartFailed failed;
    failed.rank = rank;
    failed.message = "it was lost with the warden, which was killed";
    on_event(failed);
  }
}

void SessionRanks::is_over(int rank) {
  kills_.erase(rank);
  inputs_.over(rank);
  watchdog_.ended(rank);
  gpus_.ended(rank, running_.over(rank));
  if (!running_.are_all_over()) return;
  world_watch_.end();
  arrival_report_.end();
  output_.finish();
  events_.on_all_over();
}

}  // namespace muster::agent::job
