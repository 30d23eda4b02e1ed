// Runs the exchange of blocks with the job's other hosts while files are staged: a thread that serves blocks and one
// that fetches them (agent/stage/block_server.h, block_fetcher.h). Passes the fetcher's reports on to the launcher.
//
// Owner: StageService.
// Thread: loop thread only. The reports come there, too.
// Destruction: ends both threads. It returns soon, unless the file system hangs (base/disk_thread.h).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "agent/stage/block_fetcher.h"
#include "agent/stage/block_server.h"
#include "agent/stage/block_table.h"
#include "base/disk_thread.h"
#include "base/loop.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

class StageExchange {
 public:
  struct Parts {
    std::uint64_t token = 0;  // of the launcher's StageBegin
    std::shared_ptr<BlockTable> table{};
    std::shared_ptr<BlockServer> server{};  // null if this host cannot serve
    base::TlsKey key{};
    std::vector<BlockSource> sources{};
  };

  // RESOURCE_EXHAUSTED if a thread or a descriptor cannot be had.
  static base::Result<std::unique_ptr<StageExchange>> start(base::Loop& loop, Parts parts,
                                                            std::function<void(v1::StageAnswer)> on_report);
  ~StageExchange();
  StageExchange(const StageExchange&) = delete;
  StageExchange& operator=(const StageExchange&) = delete;

 private:
  struct Outlet;

  StageExchange() = default;

  std::shared_ptr<Outlet> outlet_;
  std::shared_ptr<BlockServer> server_;
  std::shared_ptr<BlockFetcher> fetcher_;
  std::unique_ptr<base::DiskThread> serving_;
  std::unique_ptr<base::DiskThread> fetching_;
};

}  // namespace muster::agent::job
