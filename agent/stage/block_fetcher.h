// Fetches the blocks that this host misses: from other hosts, and in the end from the launcher.
//
// It tries the sources one after the other. It leaves a source that cannot be reached, sends no byte for a while,
// takes too long for a block, refuses one, or sends one with a wrong hash. Blocks that arrived stay. After the last
// source it asks the launcher, whose blocks the disk thread puts into the table.
//
// Bounds: kMostAsked blocks and kMostAskedBytes are asked for at a time; one block is in memory.
// Thread: fetch() runs on a thread of its own. The reports come there, too. The rest belongs to the thread that made
// it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/stage/block_table.h"
#include "base/clock.h"
#include "base/net.h"
#include "base/status.h"
#include "base/tls.h"
#include "base/unique_fd.h"

namespace muster::agent::inline stage {

struct BlockSource {
  std::string name{};  // for messages
  base::IpAddress address;
  std::uint16_t port = 0;
};

struct BlockReport {
  base::Status problem = base::ok_status();  // final: this host cannot be staged
  std::uint64_t done_blocks = 0;
  std::uint64_t peer_bytes = 0;
  std::uint32_t changed_files = 0;
  bool is_complete = false;
  std::vector<BlockId> wants{};      // what the launcher must send
  std::vector<std::string> notes{};  // why sources were left
};

struct BlockFetchLimits {
  std::chrono::milliseconds connect{5'000};  // for the connection, and again for its handshake
  std::chrono::milliseconds silence{5'000};  // without a byte from a source that was asked
  std::chrono::milliseconds block{30'000};   // from the first byte of a block to the last
  std::chrono::milliseconds report{500};     // between two reports of progress
};

class BlockFetcher {
 public:
  static constexpr std::size_t kMostAsked = 256;
  static constexpr std::size_t kMostAskedBytes = 16 << 20;

  static base::Result<std::unique_ptr<BlockFetcher>> make(std::shared_ptr<BlockTable> table, base::TlsKey key,
                                                          std::function<void(BlockReport)> report,
                                                          BlockFetchLimits limits = {});

  const WakeFd& wake_fd() const { return wake_; }
  // Returns when all files are complete, after a final problem, or when `stop` is set and interrupt() is called.
  void fetch(const std::vector<BlockSource>& sources, const std::atomic<bool>& stop);
  // Makes fetch() return soon. Any thread.
  void interrupt() const;

 private:
  BlockFetcher(std::shared_ptr<BlockTable> table, base::TlsContext context, WakeFd wake, base::UniqueFd stop,
               std::function<void(BlockReport)> report, BlockFetchLimits limits);

  base::Status turn(const std::atomic<bool>& stop);
  base::Status check_blocks();
  void forget_arrived();
  bool has_room() const;
  bool is_at_launcher() const { return source_ == sources_.size(); }
  void ask_launcher();
  base::Status exchange();  // UNAVAILABLE: leave the source. Other errors are final
  base::Status connect();
  base::Status send_requests();
  base::Status read_replies();
  base::Status take_reply();
  base::Status check_time() const;
  void leave_source(const base::Status& why);
  void wait() const;
  void send_report(bool is_due);

  const std::shared_ptr<BlockTable> table_;
  const base::TlsContext context_;
  const WakeFd wake_;
  const base::UniqueFd stop_;
  const std::function<void(BlockReport)> on_report_;
  const BlockFetchLimits limits_;
  std::vector<BlockSource> sources_{};
  std::size_t source_ = 0;     // index of the present source; their number means the launcher
  std::set<BlockId> asked_{};  // of the present source, and not yet here
  std::size_t asked_bytes_ = 0;
  std::deque<BlockId> to_ask_{};  // not yet asked of the present source
  std::optional<base::TlsStream> stream_{};
  std::string outgoing_{};
  std::string incoming_{};
  bool wants_write_ = false;
  bool has_more_ = false;              // more bytes or blocks can be handled at once
  base::MonotonicTime heard_{};        // when the last byte arrived, or the first request was sent
  base::MonotonicTime block_began_{};  // when the first byte of the present block arrived
  base::MonotonicTime reported_{};
  BlockReport next_report_{};
  std::uint64_t reported_blocks_ = 0;
};

}  // namespace muster::agent::stage
