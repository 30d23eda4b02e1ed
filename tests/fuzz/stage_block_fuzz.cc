// A peer of a staging that sends anything. What it sends as requests reaches a table as block numbers, and what it
// sends as replies reaches it as blocks: no wrong block is written, and nothing outside of the bytes is read. The first
// byte chooses the side: odd for requests.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/stage/block_frame.h"
#include "agent/stage/block_table.h"
#include "base/sha256.h"

namespace {

using namespace muster::agent;

constexpr std::string_view kContent = "0123456789abcdefghij";
constexpr std::size_t kBlockBytes = 16;

// One file of two blocks that the host wants, in a folder of this process.
BlockTable& table() {
  static BlockTable* const made = [] {
    const std::string path = "/tmp/muster-stage-fuzz-" + std::to_string(::getpid());
    auto folder = StageFolder::open(path);
    if (!folder.ok()) std::abort();
    auto items = std::make_shared<std::vector<StageItem>>();
    items->push_back({.path = "f", .size = kContent.size()});
    items->push_back({.path = "folder", .kind = StageItem::Kind::kFolder});
    auto* const blocks = new BlockTable(std::make_shared<StageFolder>(*std::move(folder)), items, {0}, kBlockBytes);
    std::string hashes = *muster::base::sha256_of(kContent.substr(0, kBlockBytes));
    hashes += *muster::base::sha256_of(kContent.substr(kBlockBytes));
    if (!blocks->add_hashes(0, 0, hashes).ok()) std::abort();
    while (const auto id = blocks->next_to_check()) (void)blocks->check(*id);
    std::atexit([] { std::filesystem::remove_all("/tmp/muster-stage-fuzz-" + std::to_string(::getpid())); });
    return blocks;
  }();
  return *made;
}

void serve(std::string_view rest) {
  for (; rest.size() >= kBlockRequestSize; rest.remove_prefix(kBlockRequestSize)) {
    const BlockId id = parse_block_request(rest.substr(0, kBlockRequestSize));
    if (table().presence(id) != BlockTable::Presence::kHere) continue;
    const auto bytes = table().read(id);
    if (bytes.ok() && bytes->size() != table().bytes_of(id)) std::abort();
  }
}

void fetch(std::string_view rest) {
  while (rest.size() >= kBlockReplySize) {
    const auto reply = parse_block_reply(rest.substr(0, kBlockReplySize));
    if (!reply.ok()) return;
    rest.remove_prefix(kBlockReplySize);
    if (rest.size() < reply->size) return;
    const bool was_missing = table().is_missing(reply->id);
    const std::string_view bytes = rest.substr(0, reply->size);
    const auto status = table().put(reply->id, bytes);
    const std::size_t offset = reply->id.block * kBlockBytes;
    const bool is_right = reply->id.entry == 0 && reply->id.block < 2 && bytes == kContent.substr(offset, kBlockBytes);
    if (was_missing && status.ok() != is_right) std::abort();
    rest.remove_prefix(reply->size);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data + 1), size - 1);
  (data[0] & 1U) != 0 ? serve(rest) : fetch(rest);
  return 0;
}
