// A folder of blocks for the tests of a broadcast: files are made of blocks of 10 bytes.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "agent/stage/block_table.h"
#include "agent/stage/stage_folder.h"
#include "base/sha256.h"

namespace muster::agent::block_fixture {

namespace fs = std::filesystem;

inline constexpr std::size_t kBlock = 10;

inline std::string hash_of(std::string_view bytes) {
  return *base::sha256_of(bytes);
}

inline std::string hashes_of(std::string_view content) {
  std::string hashes;
  for (std::size_t i = 0; i < content.size(); i += kBlock) hashes += hash_of(content.substr(i, kBlock));
  return hashes;
}

inline std::string block_of(std::string_view content, std::uint32_t block) {
  return std::string(content.substr(block * kBlock, kBlock));
}

class BlockFolderTest : public ::testing::Test {
 protected:
  BlockFolderTest() { fs::create_directories(root_); }
  ~BlockFolderTest() override { fs::remove_all(root_); }

  static StageItem file(const std::string& path, std::string_view content) {
    return {.path = path, .mode = 0640, .size = content.size(), .mtime_ns = 1'500'000'000'000'000'001};
  }
  void put(const std::string& path, std::string_view content) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }
  std::string content(const std::string& path) const {
    std::stringstream text;
    text << std::ifstream(root_ / path).rdbuf();
    return text.str();
  }
  // Names of all files that have not got their final names.
  std::vector<std::string> parts() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(StageFolder::kHalfPrefix)) found.push_back(name);
    }
    return found;
  }
  // A table of the files `contents` in the folder `below` the root. All are wanted unless `wanted` names some.
  std::shared_ptr<BlockTable> table(const std::string& below, const std::vector<std::string>& contents,
                                    std::vector<int> wanted = {}) const {
    auto items = std::make_shared<std::vector<StageItem>>();
    for (std::size_t i = 0; i < contents.size(); ++i) {
      items->push_back(file("f" + std::to_string(i), contents[i]));
      if (wanted.size() < contents.size()) wanted.push_back(static_cast<int>(i));
    }
    return table_of(below, std::move(items), wanted);
  }
  std::shared_ptr<BlockTable> table_of(const std::string& below, std::shared_ptr<std::vector<StageItem>> items,
                                       const std::vector<int>& wanted) const {
    auto folder = std::make_shared<StageFolder>(*StageFolder::open((root_ / below).string()));
    return std::make_shared<BlockTable>(std::move(folder), std::move(items), wanted, kBlock);
  }
  // Lists all blocks of the files `contents`.
  static void list(BlockTable& table, const std::vector<std::string>& contents) {
    for (std::size_t i = 0; i < contents.size(); ++i) {
      ASSERT_TRUE(table.add_hashes(static_cast<int>(i), 0, hashes_of(contents[i])).ok());
    }
    table.end_lists();
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("muster-blocks-" + std::to_string(::getpid()));
};

}  // namespace muster::agent::block_fixture
