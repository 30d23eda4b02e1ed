// The whole of PmiServer. Read answer() first, which handles one command of a rank.
// Then read enter_barrier(), let_out() and barrier_is_over().

#include "agent/pmi/pmi_server.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "agent/pmi/mpi_library.h"
#include "agent/pmi/pmi_line.h"
#include "agent/pmi/pmi_session.h"
#include "agent/pmi/process_mapping.h"
#include "base/strings.h"
#include "model/role.h"

namespace muster::agent::inline pmi {
namespace {

constexpr const char* kFence = "pmi-1";
constexpr const char* kMappingKey = "PMI_process_mapping";
// Barriers in MPI_Init of MPICH 4.0: two if each host has one rank, else three.
constexpr int kFewestOfInit = 2;
constexpr std::chrono::milliseconds kPatience{200};  // ranks normally reach a barrier within less time
constexpr const char* kRefused = "rc=-1 msg=not_supported_by_muster";

// Commands that are refused, each with the name of its answer.
constexpr std::pair<std::string_view, std::string_view> kRefusals[] = {
    {"spawn", "spawn_result"},
    {"create_kvs", "newkvs"},
    {"destroy_kvs", "kvs_destroyed"},
};

std::string line(std::string_view words) {
  return fmt::format("cmd={}\n", words);
}

// Works like C's atoi, which clients use for numbers. Returns 1 if the text is not a number.
int code_of(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  const auto number = base::parse_decimal(text.substr(is_negative ? 1 : 0), 0x7fffffff);
  if (!number) return 1;
  return static_cast<int>(is_negative ? -*number : *number);
}

}  // namespace

PmiServer::PmiServer(base::Loop& loop, rendezvous::HorovodKeys& keys, std::function<PmiWorld()> world, PmiEvents events)
    : loop_(loop),
      keys_(keys),
      make_world_(std::move(world)),
      events_(std::move(events)),
      names_(loop, keys, [this](int rank, const std::string& line) {
        const auto session = sessions_.find(rank);
        if (session != sessions_.end()) session->second->send(line);
      }) {}

PmiServer::~PmiServer() = default;

void PmiServer::add(int rank, base::UniqueFd socket) {
  sessions_[rank] = std::make_unique<PmiSession>(
      loop_, std::move(socket), [this, rank](const PmiCommand& command) { return answer(rank, command); },
      [this, rank](const base::Status& why) {
        events_.on_problem(why.with_context(fmt::format("PMI of rank {}", rank)));
      });
}

void PmiServer::ended(int rank) {
  const auto found = sessions_.find(rank);
  if (found == sessions_.end()) return;
  found->second->drain();
  sessions_.erase(found);
}

base::Result<std::string> PmiServer::answer(int rank, const PmiCommand& command) {
  MUSTER_RETURN_IF_ERROR(open_world());
  const std::string& name = command.name;
  if (name == "init") return greet(rank, command);
  if (name == "get_maxes") {
    return line(
        fmt::format("maxes kvsname_max={} keylen_max={} vallen_max={} rc=0", kMaxPmiName, kMaxPmiKey, kMaxPmiValue));
  }
  if (name == "get_appnum") {
    return line(fmt::format("appnum appnum={} rc=0", model::program_of(world_.programs, rank)));
  }
  if (name == "get_universe_size") return line(fmt::format("universe_size size={} rc=0", world_.size));
  if (name == "get_my_kvsname") return line(fmt::format("my_kvsname kvsname={} rc=0", world_.name));
  if (name == "put") return put(rank, command);
  if (name == "get") return get(rank, command);
  if (name == "barrier_in") return enter_barrier(rank);
  if (name == "finalize") {
    events_.finalized(rank);
    return line("finalize_ack rc=0");
  }
  if (name == "abort") {
    events_.aborted(rank, code_of(command.word("exitcode")));
    return std::string();
  }
  if (names_.take(rank, command)) return std::string();
  if (name == "spawn") events_.spawn_refused(rank);
  for (const auto& [asked, refused] : kRefusals) {
    if (name == asked) return line(fmt::format("{} {}", refused, kRefused));
  }
  return base::unimplemented("'{}' is not a PMI-1 command that Muster knows", base::printable(name.substr(0, 80)));
}

base::Status PmiServer::open_world() {
  if (fence_ != nullptr) return base::ok_status();
  world_ = make_world_();
  const std::string mapping = pmi_process_mapping(world_.hosts, kMaxPmiValue);
  if (!mapping.empty()) MUSTER_RETURN_IF_ERROR(space_.preset(kMappingKey, mapping));
  fence_ = std::make_unique<rendezvous::HostFence>(loop_, keys_, world_.host);
  return base::ok_status();
}

base::Result<std::string> PmiServer::greet(int rank, const PmiCommand& command) {
  const bool is_known = command.word("pmi_version") == "1";
  if (is_known) events_.connected(rank);
  return line(fmt::format("response_to_init pmi_version=1 pmi_subversion=1 rc={}", is_known ? 0 : -1));
}

std::string PmiServer::put(int rank, const PmiCommand& command) {
  ranks_[rank].has_put = true;
  const base::Status stored = space_.put(command.word("key"), command.word("value"));
  if (stored.ok()) return line("put_result rc=0 msg=success");
  events_.on_problem(stored);
  return line("put_result rc=-1 msg=not_stored");
}

std::string PmiServer::get(int rank, const PmiCommand& command) {
  ranks_[rank].has_got = true;
  const std::string* const found = space_.get(command.word("key"));
  if (found == nullptr) return line("get_result rc=-1 msg=key_not_found value=unknown");
  return line(fmt::format("get_result rc=0 msg=success value={}", *found));
}

base::Result<std::string> PmiServer::enter_barrier(int rank) {
  if (!in_barrier_.insert(rank).second) {
    return base::invalid_argument("it entered a barrier a second time");
  }
  Rank& entered = ranks_[rank];
  entered.entered = base::monotonic_now();
  // Each barrier of MPI_Init is followed by puts, or comes before the rank's first get of another rank's value. So a
  // barrier after gets and without puts may be the one in MPI_Finalize.
  const bool may_be_the_last = ++entered.barriers > kFewestOfInit && entered.has_got && !entered.has_put;
  entered.has_got = entered.has_put = false;
  if (may_be_the_last) entered.patience = loop_.after(kPatience, [this, rank] { let_out(rank); });
  if (in_barrier_.size() == world_.hosts[static_cast<std::size_t>(world_.host)].size()) {
    std::vector<int> members(world_.hosts.size());
    std::iota(members.begin(), members.end(), 0);
    fence_->enter(kFence, std::move(members), space_.take_blob(),
                  [this](const base::Result<rendezvous::HostFence::Blobs>& blobs) { barrier_is_over(blobs); });
  }
  return std::string();
}

std::optional<base::MonotonicTime> PmiServer::waits_since(int rank) const {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end() || !in_barrier_.contains(rank) || found->second.is_out) return std::nullopt;
  return found->second.entered;
}

// Releases the rank from the barrier early. In MPI_Finalize, MPICH before 4.2 over UCX waits until each peer
// acknowledges the end of its connections.
// Peers whose own connections have ended already wait in this barrier and do not acknowledge. So these ranks hang,
// whatever launcher they have.
// The barrier has no other purpose; pull request 6596 of pmodels/mpich removes it.
void PmiServer::let_out(int rank) {
  const auto session = sessions_.find(rank);
  if (session == sessions_.end() || !in_barrier_.contains(rank) || !is_mpich_over_ucx(session->second->sender()))
    return;
  ranks_[rank].is_out = true;
  session->second->send(line("barrier_out rc=0"));
}

void PmiServer::barrier_is_over(const base::Result<rendezvous::HostFence::Blobs>& blobs) {
  base::Status merged = blobs.status();
  for (std::size_t i = 0; merged.ok() && i < blobs->size(); ++i) merged = space_.merge((*blobs)[i]);
  if (!merged.ok()) events_.on_problem(merged);
  const std::string out = line(merged.ok() ? "barrier_out rc=0" : "barrier_out rc=-1");
  for (const int rank : std::exchange(in_barrier_, {})) {
    Rank& leaving = ranks_[rank];
    leaving.patience.cancel();
    const auto session = sessions_.find(rank);
    if (!std::exchange(leaving.is_out, false) && session != sessions_.end()) session->second->send(out);
  }
}

}  // namespace muster::agent::pmi
