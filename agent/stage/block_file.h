// One file of a broadcast while it is put together from blocks, in a partial file beside its final name.
//
// It uses what the host has: blocks of the existing file with other content, and blocks of a partial file that a broken
// staging has left behind. If all blocks of the existing file turn out to be right, that file stays untouched.
//
// Partial file: its name depends only on the file's name, so the next staging finds it. A lock on it shows that a
// staging uses it. A second staging at the same time uses a name of its own, and removes that part at its end.
// Owner: BlockTable. Must not outlive the StageFolder.
// Thread: any. Calls do disk work, one after the other, and block.
// Destruction: the partial file stays for the next staging, unless a write has failed. Partial files of killed stagings
// are removed like half-written files (StageFolder::kAbandoned).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "agent/stage/stage_folder.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::agent::inline stage {

class BlockFile {
 public:
  BlockFile(const StageFolder& folder, StageItem item, std::size_t block_bytes);
  ~BlockFile();
  BlockFile(const BlockFile&) = delete;
  BlockFile& operator=(const BlockFile&) = delete;

  // Returns whether the host has the block with this SHA-256, and keeps it. Call it once for each block, in order.
  base::Result<bool> check(const std::string& hash);
  // Writes a block whose hash is right, after check() has returned false for it.
  base::Status put(std::uint32_t block, std::string_view bytes);
  // Reads a block that check() has found or put() has written.
  base::Result<std::string> read(std::uint32_t block) const;
  // Gives the file its final name, mode and time. All blocks must be in place.
  base::Status finish();

 private:
  base::Status open();
  void resume_part();
  base::Status make_part();
  base::Status write_block(std::uint32_t block, std::string_view bytes);
  base::Result<std::string> read_from(int file, std::uint32_t block) const;
  std::string shared_part_name() const;
  base::UniqueFd create_part(const std::string& name) const;
  base::Status failed(int errno_value, std::string_view what) const;
  void drop_part();

  const StageFolder& folder_;
  const StageItem item_;
  const std::size_t block_bytes_;
  mutable std::mutex mutex_;
  bool is_open_ = false;
  base::UniqueFd parent_{};
  base::UniqueFd old_{};   // the existing file; invalid if there is none that can be used
  base::UniqueFd part_{};  // made by the first block that the existing file does not have
  std::string name_of_part_{};
  bool was_resumed_ = false;
  bool is_private_ = false;            // no other staging finds the part by its name
  std::vector<std::string> hashes_{};  // of the blocks that were checked
};

// Reads one block of a file that is complete. The content may have changed since, so the reader checks the hash.
base::Result<std::string> read_block_of_file(const StageFolder& folder, const StageItem& item, std::uint32_t block,
                                             std::size_t block_bytes);

// Sizes of the blocks of a file.
std::uint32_t count_of_blocks(std::uint64_t file_bytes, std::size_t block_bytes);
std::size_t size_of_block(std::uint64_t file_bytes, std::size_t block_bytes, std::uint32_t block);

}  // namespace muster::agent::stage
