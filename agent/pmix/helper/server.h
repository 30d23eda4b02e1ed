// libpmix as the PMIx server of one job's ranks on this host.
//
// libpmix calls back on a thread of its own, where nothing may be asked of it and nothing may wait: each call becomes a
// task that the owner runs on his thread, and is answered from there. One for the process, as libpmix's server is.
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
  using Post = std::function<void(std::function<void()>)>;  // from any thread; runs the task on the owner's
  using Send = std::function<void(Event)>;                  // on the owner's thread; out when it returns

  // Tens of milliseconds: libpmix looks at the machine, so that each rank need not.
  static base::Result<std::unique_ptr<Server>> start(const BeginServer& begin, Post post, Send send);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& version() const { return library_.version; }
  // The job is known to libpmix after it. Some ms.
  base::Status place(const Placement& placement);
  // Spawned ranks are known to libpmix after it; after place(). The error is one sentence.
  base::Status add(const AddWorld& world);
  void spawn_done(const SpawnDone& done);
  // `rank`: a connected socket, before or after place(). Later errors are the rank's to see.
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
  // Ranks with one MPI_COMM_WORLD: those of the job, or spawned ones.
  struct World {
    std::string nspace;
    int first = 0;  // the job's number of its rank 0
    Placement placement;
    std::optional<pmix_proc_t> spawner;
    std::vector<std::size_t> others;  // ranks of earlier worlds, by host
  };
  base::Status add(World world);
  base::Status register_world(const World& world);
  static void add_programs(const World& world, Infos& infos, const Library& library);
  void add_ranks(const World& world, Infos& infos) const;
  base::Status register_ranks(const World& world);
  const std::vector<int>& own_ranks(const World& world) const;
  // From any thread. nullopt: no rank of the job.
  std::optional<int> number_of(const pmix_proc_t& proc) const;
  std::optional<pmix_proc_t> proc_of(int number) const;
  // The numbers of a list that may say "all of this world"; ascending. nullopt: a rank of it is unknown.
  std::optional<std::vector<int>> numbers_of(const pmix_proc_t* procs, std::size_t count) const;
  // Waits for libpmix to have done what `start` asks for.
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
  std::vector<World> worlds_;   // the first is the job's; written by the owner's thread with mutex_, read by all
  std::map<int, int> host_of_;  // by number; the owner's thread
  std::vector<base::UniqueFd> early_;
  bool is_placed_ = false;
  std::map<std::uint64_t, Waiting> waiting_;                                       // for the agent; the owner's thread
  std::map<std::uint64_t, std::function<void(const NameAnswer&)>> names_waiting_;  // the same
  std::map<std::uint64_t, std::function<void(const SpawnDone&)>> spawns_waiting_;  // the same
  std::deque<std::vector<pmix_pdata_t>> looked_up_;  // the last answers: libpmix may read them later
  std::deque<std::vector<std::string>> looked_up_bytes_;
  std::uint64_t last_id_ = 0;
};

}  // namespace muster::agent::pmix
