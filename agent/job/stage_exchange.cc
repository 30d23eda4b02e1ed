#include "agent/job/stage_exchange.h"

#include <mutex>
#include <utility>

#include "base/gate.h"
#include "base/strings.h"
#include "proto/muster/v1/stage_broadcast.pb.h"

namespace muster::agent::inline job {
namespace {

v1::StageAnswer answer_of(std::uint64_t token, const BlockReport& report) {
  v1::StageBroadcastAnswer answer;
  v1::StageReport& to = *answer.mutable_report();
  to.set_token(token);
  to.set_done_blocks(report.done_blocks);
  to.set_peer_bytes(report.peer_bytes);
  to.set_changed_files(report.changed_files);
  to.set_is_complete(report.is_complete);
  for (const BlockId id : report.wants) {
    v1::StageBlock& want = *to.add_wants();
    want.set_entry(static_cast<int>(id.entry));
    want.set_block(id.block);
  }
  for (const std::string& note : report.notes) to.add_notes(base::valid_utf8(note));
  v1::StageAnswer message;
  if (!report.problem.ok()) message.set_error(base::valid_utf8(report.problem.message()));
  message.set_broadcast(answer.SerializeAsString());
  return message;
}

}  // namespace

// The fetcher's way to the loop. It closes when the exchange ends, although a thread that hangs may live on.
struct StageExchange::Outlet {
  std::mutex mutex{};
  base::Loop* loop = nullptr;  // null when it is closed
  base::Gate gate{};

  void post(base::Loop::Task task) {
    const std::lock_guard lock(mutex);
    if (loop != nullptr) loop->post(gate.wrap(std::move(task)));
  }
  void close() {
    const std::lock_guard lock(mutex);
    loop = nullptr;
    gate.close();
  }
};

base::Result<std::unique_ptr<StageExchange>> StageExchange::start(base::Loop& loop, Parts parts,
                                                                  std::function<void(v1::StageAnswer)> on_report) {
  std::unique_ptr<StageExchange> exchange(new StageExchange);
  exchange->outlet_ = std::make_shared<Outlet>();
  exchange->outlet_->loop = &loop;
  MUSTER_ASSIGN_OR_RETURN(
      std::shared_ptr<BlockFetcher> fetcher,
      BlockFetcher::make(parts.table, parts.key,
                         [outlet = exchange->outlet_, token = parts.token, on_report](const BlockReport& report) {
                           outlet->post([on_report, answer = answer_of(token, report)] { on_report(answer); });
                         }));
  std::vector<WakeFd> wakes{fetcher->wake_fd()};
  if (parts.server != nullptr) wakes.push_back(parts.server->wake_fd());
  parts.table->notify(std::move(wakes));
  exchange->fetcher_ = fetcher;
  exchange->server_ = parts.server;
  // Each thread keeps what it uses, also if it hangs and is left behind.
  const auto kept = std::make_shared<
      std::tuple<std::shared_ptr<BlockTable>, std::shared_ptr<BlockFetcher>, std::shared_ptr<BlockServer>>>(
      parts.table, fetcher, parts.server);
  if (parts.server != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(exchange->serving_, base::DiskThread::start(loop, kept));
    exchange->serving_->add([kept](const std::atomic<bool>& stop) -> base::Loop::Task {
      std::get<2>(*kept)->serve(*std::get<0>(*kept), stop);
      return [] {};
    });
  }
  MUSTER_ASSIGN_OR_RETURN(exchange->fetching_, base::DiskThread::start(loop, kept));
  exchange->fetching_->add(
      [kept, sources = std::move(parts.sources)](const std::atomic<bool>& stop) -> base::Loop::Task {
        std::get<1>(*kept)->fetch(sources, stop);
        return [] {};
      });
  return exchange;
}

StageExchange::~StageExchange() {
  if (outlet_ != nullptr) outlet_->close();
  if (fetcher_ != nullptr) fetcher_->interrupt();
  if (server_ != nullptr) server_->interrupt();
  fetching_.reset();
  serving_.reset();
}

}  // namespace muster::agent::job
