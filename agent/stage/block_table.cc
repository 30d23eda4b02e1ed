// The whole of BlockTable. Read add_hashes, next_to_check, check and put first: they are the life of a block.
#include "agent/stage/block_table.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace muster::agent::inline stage {

using base::Result;
using base::Status;

BlockTable::BlockTable(std::shared_ptr<const StageFolder> folder, std::shared_ptr<const std::vector<StageItem>> items,
                       const std::vector<int>& wanted, std::size_t block_bytes)
    : folder_(std::move(folder)), items_(std::move(items)), block_bytes_(block_bytes) {
  for (const int entry : wanted) {
    if (item(static_cast<std::uint32_t>(entry)) != nullptr) files_.try_emplace(static_cast<std::uint32_t>(entry));
  }
  incomplete_ = files_.size();
}

void BlockTable::notify(std::vector<WakeFd> descriptors) {
  const std::lock_guard lock(mutex_);
  notified_ = std::move(descriptors);
}

void BlockTable::wake() const {
  const std::lock_guard lock(mutex_);
  for (const WakeFd& fd : notified_) (void)::eventfd_write(fd->get(), 1);
}

const StageItem* BlockTable::item(std::uint32_t entry) const {
  return entry < items_->size() && (*items_)[entry].kind == StageItem::Kind::kFile ? &(*items_)[entry] : nullptr;
}

const BlockTable::Block* BlockTable::block_of(BlockId id) const {
  const auto file = files_.find(id.entry);
  return file == files_.end() || id.block >= file->second.blocks.size() ? nullptr : &file->second.blocks[id.block];
}

const std::shared_ptr<BlockFile>& BlockTable::parts_of(std::uint32_t entry, File& file) const {
  if (file.parts == nullptr) file.parts = std::make_shared<BlockFile>(*folder_, *item(entry), block_bytes_);
  return file.parts;
}

Status BlockTable::add_hashes(int entry, std::uint32_t first, std::string_view hashes) {
  std::shared_ptr<BlockFile> empty;
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(static_cast<std::uint32_t>(entry));
    const std::size_t count = hashes.size() / base::kSha256Size;
    if (found == files_.end() || found->second.blocks.size() != first || hashes.size() % base::kSha256Size != 0) {
      return base::invalid_argument("blocks of entry {} from {} on do not follow the earlier ones", entry, first);
    }
    File& file = found->second;
    const std::uint32_t blocks = count_of_blocks(item(found->first)->size, block_bytes_);
    if (first + count > blocks) return base::invalid_argument("entry {} has {} blocks, not more", entry, blocks);
    for (std::size_t i = 0; i < count; ++i) {
      std::ranges::copy(hashes.substr(i * base::kSha256Size, base::kSha256Size),
                        file.blocks.emplace_back().hash.begin());
      to_check_.push_back({.entry = found->first, .block = first + static_cast<std::uint32_t>(i)});
    }
    if (blocks == 0 && !file.is_changed) {
      file.is_changed = true;
      ++changed_files_;
      empty = parts_of(found->first, file);
    }
  }
  if (empty != nullptr) MUSTER_RETURN_IF_ERROR(finish(entry, empty));
  wake();
  return base::ok_status();
}

void BlockTable::end_lists() {
  {
    const std::lock_guard lock(mutex_);
    have_lists_ended_ = true;
  }
  wake();
}

std::optional<BlockId> BlockTable::next_to_check() {
  const std::lock_guard lock(mutex_);
  if (to_check_.empty()) return std::nullopt;
  const BlockId id = to_check_.front();
  to_check_.pop_front();
  return id;
}

Result<bool> BlockTable::check(BlockId id) {
  std::shared_ptr<BlockFile> parts;
  std::string hash;
  {
    const std::lock_guard lock(mutex_);
    const Block* const block = block_of(id);
    if (block == nullptr) return base::internal_error("no block {} of entry {} is listed", id.block, id.entry);
    parts = parts_of(id.entry, files_[id.entry]);
    hash.assign(block->hash.data(), block->hash.size());
  }
  MUSTER_ASSIGN_OR_RETURN(const bool is_here, parts->check(hash));
  if (is_here) {
    MUSTER_RETURN_IF_ERROR(mark_here(id));
    return true;
  }
  const std::lock_guard lock(mutex_);
  File& file = files_[id.entry];
  file.blocks[id.block].state = State::kMissing;
  if (!file.is_changed) ++changed_files_;
  file.is_changed = true;
  return false;
}

Status BlockTable::put(BlockId id, std::string_view bytes) {
  std::shared_ptr<BlockFile> parts;
  std::string hash;
  {
    const std::lock_guard lock(mutex_);
    const Block* const block = block_of(id);
    if (block == nullptr || block->state != State::kMissing) return base::ok_status();
    parts = files_[id.entry].parts;
    hash.assign(block->hash.data(), block->hash.size());
  }
  MUSTER_ASSIGN_OR_RETURN(const std::string digest, base::sha256_of(bytes));
  if (digest != hash || bytes.size() != bytes_of(id)) {
    return base::data_loss("block {} of {} arrived with other content", id.block,
                           base::printable((*items_)[id.entry].path));
  }
  const Status written = parts->put(id.block, bytes);
  if (!written.ok()) return is_missing(id) ? written : base::ok_status();  // another source has brought it meanwhile
  return mark_here(id);
}

Status BlockTable::mark_here(BlockId id) {
  std::shared_ptr<BlockFile> complete;
  {
    const std::lock_guard lock(mutex_);
    File& file = files_[id.entry];
    if (file.is_complete) return base::ok_status();
    Block& block = file.blocks[id.block];
    if (block.state == State::kHere) return base::ok_status();
    block.state = State::kHere;
    ++done_blocks_;
    if (++file.here == count_of_blocks(item(id.entry)->size, block_bytes_)) complete = file.parts;
  }
  if (complete != nullptr) MUSTER_RETURN_IF_ERROR(finish(static_cast<int>(id.entry), complete));
  wake();
  return base::ok_status();
}

Status BlockTable::finish(int entry, const std::shared_ptr<BlockFile>& parts) {
  MUSTER_RETURN_IF_ERROR(parts->finish());
  const std::lock_guard lock(mutex_);
  File& file = files_[static_cast<std::uint32_t>(entry)];
  file.parts.reset();
  file.blocks = {};
  file.is_complete = true;
  --incomplete_;
  return base::ok_status();
}

bool BlockTable::is_missing(BlockId id) const {
  const std::lock_guard lock(mutex_);
  const Block* const block = block_of(id);
  return block != nullptr && block->state == State::kMissing;
}

std::size_t BlockTable::bytes_of(BlockId id) const {
  const StageItem* const file = item(id.entry);
  return file == nullptr ? 0 : size_of_block(file->size, block_bytes_, id.block);
}

BlockTable::Presence BlockTable::presence(BlockId id) const {
  if (bytes_of(id) == 0) return Presence::kNever;
  const std::lock_guard lock(mutex_);
  const auto file = files_.find(id.entry);
  if (file == files_.end() || file->second.is_complete) return Presence::kHere;
  const Block* const block = block_of(id);
  return block != nullptr && block->state == State::kHere ? Presence::kHere : Presence::kLater;
}

Result<std::string> BlockTable::read(BlockId id) const {
  std::shared_ptr<BlockFile> parts;
  {
    const std::lock_guard lock(mutex_);
    const auto file = files_.find(id.entry);
    if (file != files_.end()) parts = file->second.parts;
  }
  if (parts != nullptr) {
    auto bytes = parts->read(id.block);
    if (bytes.ok()) return bytes;  // else the file was completed meanwhile
  }
  const StageItem* const file = item(id.entry);
  if (file == nullptr) return base::invalid_argument("entry {} is no file", id.entry);
  return read_block_of_file(*folder_, *file, id.block, block_bytes_);
}

bool BlockTable::is_complete() const {
  const std::lock_guard lock(mutex_);
  return have_lists_ended_ && incomplete_ == 0;
}

std::uint64_t BlockTable::done_blocks() const {
  const std::lock_guard lock(mutex_);
  return done_blocks_;
}

std::uint32_t BlockTable::changed_files() const {
  const std::lock_guard lock(mutex_);
  return changed_files_;
}

}  // namespace muster::agent::stage
