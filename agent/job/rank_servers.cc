#include "agent/job/rank_servers.h"

#include <utility>

#include <fmt/format.h>

#include "agent/job/agent_messages.h"
#include "agent/proc/session_dir.h"
#include "agent/proc/session_notes.h"

namespace muster::agent::inline job {

RankServers::RankServers(base::Loop& loop, Events events)
    : events_(std::move(events)),
      socket_(loop, {.on_first_hello =
                         [this] {
                           v1::AgentMessage message;
                           message.mutable_follow_ends()->set_wants_silent_ranks(true);
                           events_.send(std::move(message));
                         },
                     .on_problem = events_.on_problem}),
      ends_(loop, events_.kill),
      pals_([this](const base::Status& problem) { events_.on_notice(problem.message()); }),
      pmi_(loop, ends_, [this](const base::Status& problem) { events_.on_notice(problem.message()); }),
      pmix_(loop, ends_,
            {.on_problem = events_.on_notice,
             .pid_of = events_.pid_of,
             .on_spawn =
                 [this](v1::SpawnRequest request) {
                   events_.send(message_with(&v1::AgentMessage::mutable_spawn_request, std::move(request)));
                 },
             .on_world_added =
                 [this](v1::WorldAdded added) {
                   events_.send(message_with(&v1::AgentMessage::mutable_world_added, std::move(added)));
                 },
             .on_lost = events_.on_lost}) {}

void RankServers::open_socket(const v1::Launch& launch, const Session& session) {
  if (session.secret.empty() || session.keys == nullptr) return;
  std::vector<int> ranks;
  for (const v1::LaunchRank& rank : launch.ranks()) ranks.push_back(rank.rank());
  const base::Status opened = socket_.open(session.directory, session.secret, ranks, *session.keys);
  if (!opened.ok()) {
    events_.on_notice(
        fmt::format("programs that use libmuster will not find each other: {}; name another directory in "
                    "MUSTER_TMPDIR",
                    opened.message()));
  }
}

void RankServers::open(const v1::Launch& launch, const Session& session, std::vector<SpawnRequest>& requests) {
  pmi_.open(launch, session.keys);
  if (!pmi_.world_name().empty()) {
    const base::Status noted = write_note(session.directory, kWorldNote, pmi_.world_name() + "\n");
    if (!noted.ok()) events_.on_notice(noted.message());
  }
  for (int i = 0; i < launch.ranks_size(); ++i) pmi_.plan(launch.ranks(i), requests[static_cast<std::size_t>(i)]);
  pals_.open(launch, session.directory, session.secret);
  for (SpawnRequest& request : requests) pals_.plan(request);
  pmix_.open(launch, session.keys, session.directory, session.verbose);
  for (SpawnRequest& request : requests) pmix_.plan(request);
}

void RankServers::add_world(const v1::AddWorld& world, std::vector<SpawnRequest>& requests) {
  pmix_.add_world(world);
  for (SpawnRequest& request : requests) pmix_.plan(request);
}

void RankServers::judge(v1::RankExited& exited) {
  pmix_.catch_up();
  pmi_.ended(exited.rank());
  ends_.judge(exited);
}

void RankServers::rank_ended(const model::RankEnd& end) {
  socket_.rank_ended({end.rank, end.status() != 0, model::describe_to_peers(end)});
}

void RankServers::ranks_ended(const v1::RanksEnded& ended) {
  for (const v1::EndedRank& rank : ended.ranks()) socket_.rank_ended({rank.rank(), rank.failed(), rank.cause()});
}

std::optional<Awaited> RankServers::awaited(int number, int rank) const {
  return older(socket_.awaited(rank), older(pmi_.awaited(number), pmix_.awaited(number)));
}

std::vector<std::string> RankServers::variable_names() const {
  std::vector<std::string> names = pmi_variable_names();
  for (std::string& name : pals_variable_names()) names.push_back(std::move(name));
  names.insert(names.end(), pmix_.variable_names().begin(), pmix_.variable_names().end());
  return names;
}

}  // namespace muster::agent::job
