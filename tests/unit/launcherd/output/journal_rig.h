// For tests of journals: a folder of their own, records made by hand, and what a file holds.
#pragma once

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "launcherd/output/journal_file.h"
#include "launcherd/output/journal_sink.h"

namespace muster::testing_journal {

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "journal.XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/output";
  }
  void TearDown() override { EXPECT_EQ(std::system(("rm -rf '" + folder_ + "'").c_str()), 0); }

  std::string content() const {
    std::ifstream file(path_, std::ios::binary);
    EXPECT_TRUE(file.good()) << path_;
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write_file(std::string_view bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::unique_ptr<launcherd::JournalSink> open(launcherd::JournalSink::OnFlush on_flush = {}) {
    auto sink = launcherd::JournalSink::open(path_, &clock_, std::move(on_flush));
    EXPECT_TRUE(sink.ok()) << sink.status();
    return sink.ok() ? std::move(sink).value() : nullptr;
  }

  std::string folder_;
  std::string path_;
  base::FakeClock clock_;
};

inline std::string data_record(int rank, std::string_view text, std::uint64_t sequence = 1) {
  launcherd::JournalHeader header;
  header.rank = static_cast<std::uint32_t>(rank);
  header.sequence = sequence;
  return launcherd::encode_journal_record(header, text);
}

}  // namespace muster::testing_journal
