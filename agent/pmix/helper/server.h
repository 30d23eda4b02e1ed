// libpmix as the PMIx server of one job's ranks on this host.
//
// Thread: libpmix calls back on its own thread, where we may not call libpmix and may not wait. So each callback
// posts a task. The owner runs the task on its own thread and answers from there.
// There is one Server for the process, because libpmix has one server for the process.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/pmix/helper/infos.h"
#include "agent/pmix/helper/library.h"
#include "agent/pmix/messages.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::pmix {

class Server {
 public:
  // May be called from any thread. It runs the task on the owner's thread.
  using Post = std::function<void(std::function<void()>)>;
  // Called on the owner's thread. The event is written when it returns.
  using Send = std::function<void(Event)>;

  // Takes tens of milliseconds, because libpmix examines the machine once for all ranks.
  static base::Result<std::unique_ptr<Server>> start(const BeginServer& begin, Post post, Send send);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& version() const { return library_.version; }
  // Registers the job with libpmix. Takes some ms.
  base::Status place(const Placement& placement);
  // Registers spawned ranks with libpmix; call it after place(). The error is one sentence.
  base::Status add(const AddWorld& world);
  void spawn_done(const SpawnDone& done);
  // `rank` is a connected socket. It may come before or after place(). Only the rank sees later errors.
  base::Status serve(base::UniqueFd rank);
  void fence_done(const FenceDone& done);
  void want_rank_data(const WantRankData& wanted);
  void rank_data_found(const RankDataFound& found);
  void name_answered(const NameAnswer& answer);

 private:
  struct Callbacks;
  struct Waiting {
    pmix_modex_cbfunc_t done = nullptr;
    void* context = nullptr;
  };

  Server(Library library, const BeginServer& begin, Post post, Send send);
  base::Status begin();
  base::Result<std::uint16_t> find_port() const;
  // Ranks with one MPI_COMM_WORLD: those of the job, or those of one spawn.
  struct World {
    std::string nspace;
    int first = 0;  // the job-wide number of this world's rank 0
    Placement placement;
    std::optional<pmix_proc_t> spawner;
    std::vector<std::size_t> others;  // number of ranks of earlier worlds, by host
  };
  base::Status add(World world);
  base::Status register_world(const World& world);
  static void add_programs(const World& world, Infos& infos, const Library& library);
  void add_ranks(const World& world, Infos& infos) const;
  base::Status register_ranks(const World& world);
  const std::vector<int>& own_ranks(const World& world) const;
  // May be called from any thread. nullopt if it is not a rank of the job.
  std::optional<int> number_of(const pmix_proc_t& proc) const;
  std::optional<pmix_proc_t> proc_of(int number) const;
  // Returns the job-wide numbers of the ranks in a list, ascending. An entry may mean "all of this world". nullopt if
  // a rank is unknown.
  std::optional<std::vector<int>> numbers_of(const pmix_proc_t* procs, std::size_t count) const;
  // Starts an operation and waits until libpmix has finished it.
  base::Status wait_for(const char* what, const std::function<pmix_status_t(pmix_op_cbfunc_t, void*)>& start);
  void answer(std::uint64_t id, bool is_ok, const std::string& blob);
  void answer_later(pmix_op_cbfunc_t done, void* context);
  void answer_look_up(pmix_lookup_cbfunc_t done, void* context, const NameAnswer& answer);
  std::string text_of(pmix_status_t status) const;

  const Library library_;
  const BeginServer begin_;
  const Post post_;
  const Send send_;
  std::uint16_t port_ = 0;
  mutable std::mutex mutex_;
  // The first world is the job's own. The owner's thread writes the list under mutex_. All threads read it.
  std::vector<World> worlds_;
  std::map<int, int> host_of_;  // by job-wide number; the owner's thread only
  std::vector<base::UniqueFd> early_;
  bool is_placed_ = false;
  // The next three hold calls of libpmix that wait for the agent's answer. Only the owner's thread uses them.
  std::map<std::uint64_t, Waiting> waiting_;
  std::map<std::uint64_t, std::function<void(const NameAnswer&)>> names_waiting_;
  std::map<std::uint64_t, std::function<void(const SpawnDone&)>> spawns_waiting_;
  std::deque<std::vector<pmix_pdata_t>> looked_up_;  // kept, because libpmix may read the last answers later
  std::deque<std::vector<std::string>> looked_up_bytes_;
  std::uint64_t last_id_ = 0;
};

}  // namespace muster::agent::pmix
