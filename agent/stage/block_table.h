// All blocks of one broadcast on this host: which it has, which it misses, and the files that they make.
//
// The disk thread adds items and hashes, the fetcher asks which blocks are missing, and the fetcher and the disk thread
// put blocks. The server reads blocks for other hosts. When the last block of a file is in place, put() or check()
// gives the file its name.
//
// Owner: shared by the disk thread, the fetcher and the server.
// Thread: any. No lock is held during disk work.
// Errors: a disk error is final for this broadcast. A block with a wrong hash is not: see put().
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/stage/block_file.h"
#include "agent/stage/block_frame.h"
#include "agent/stage/stage_folder.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline stage {

// A descriptor (eventfd) that wakes a thread. The table and the thread share it, so that no one writes to a descriptor
// that was closed and has become another file.
using WakeFd = std::shared_ptr<const base::UniqueFd>;

class BlockTable {
 public:
  // Entries are numbered as in `items`. Those that are not in `wanted` are complete on this host.
  BlockTable(std::shared_ptr<const StageFolder> folder, std::shared_ptr<const std::vector<StageItem>> items,
             const std::vector<int>& wanted, std::size_t block_bytes);

  // Writes to these descriptors when blocks arrive or are listed.
  void notify(std::vector<WakeFd> descriptors);

  // Adds the hashes of consecutive blocks of a wanted file, 32 bytes each. An empty file gets its name at once.
  // INVALID_ARGUMENT if the list does not fit the file.
  base::Status add_hashes(int entry, std::uint32_t first, std::string_view hashes);
  // No more hashes will come.
  void end_lists();

  // Returns the next listed block for check(). nullopt while there is none.
  std::optional<BlockId> next_to_check();
  // Looks for the block on this host. Returns whether it is in place now; else it is missing, and put() brings it.
  base::Result<bool> check(BlockId id);
  // Takes a block from a peer or the launcher. DATA_LOSS: the bytes are not those of the block; nothing was written.
  // Ignores a block that is not missing.
  base::Status put(BlockId id, std::string_view bytes);
  bool is_missing(BlockId id) const;
  std::size_t bytes_of(BlockId id) const;  // 0 if there is no such block

  enum class Presence { kHere, kLater, kNever };
  Presence presence(BlockId id) const;
  base::Result<std::string> read(BlockId id) const;

  bool is_complete() const;  // all lists have come, and all files have their names
  std::uint64_t done_blocks() const;
  std::uint32_t changed_files() const;
  std::size_t block_bytes() const { return block_bytes_; }

 private:
  enum class State : std::uint8_t { kListed, kMissing, kHere };
  struct Block {
    std::array<char, base::kSha256Size> hash{};
    State state = State::kListed;
  };
  struct File {
    std::shared_ptr<BlockFile> parts{};  // from the first check on, until the file is complete
    std::vector<Block> blocks{};         // empty again when the file is complete
    std::uint32_t here = 0;
    bool is_changed = false;
    bool is_complete = false;
  };

  const StageItem* item(std::uint32_t entry) const;
  const Block* block_of(BlockId id) const;
  const std::shared_ptr<BlockFile>& parts_of(std::uint32_t entry, File& file) const;
  base::Status mark_here(BlockId id);
  base::Status finish(int entry, const std::shared_ptr<BlockFile>& parts);
  void wake() const;

  const std::shared_ptr<const StageFolder> folder_;
  const std::shared_ptr<const std::vector<StageItem>> items_;
  const std::size_t block_bytes_;
  mutable std::mutex mutex_;
  std::vector<WakeFd> notified_{};
  std::map<std::uint32_t, File> files_;  // those that this host wants, by entry
  std::deque<BlockId> to_check_{};
  std::size_t incomplete_ = 0;  // files
  bool have_lists_ended_ = false;
  std::uint64_t done_blocks_ = 0;
  std::uint32_t changed_files_ = 0;
};

}  // namespace muster::agent::stage
