// Helpers for tests of journals: a folder of their own, handmade records, and the content of a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "launcherd/output/journal_file.h"
#include "launcherd/output/journal_sink.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::testing_journal {

class JournalTest : public ::testing::Test {
 protected:
  std::string content() const { return dir_.read("output"); }
  void write_file(std::string_view bytes) const { dir_.write("output", bytes); }
  std::unique_ptr<launcherd::JournalSink> open(launcherd::JournalSink::OnFlush on_flush = {}) {
    auto sink = launcherd::JournalSink::open(path_, &clock_, std::move(on_flush));
    EXPECT_TRUE(sink.ok()) << sink.status();
    return sink.ok() ? std::move(sink).value() : nullptr;
  }

  testing_support::TempDir dir_;
  const std::string path_ = dir_ / "output";
  base::FakeClock clock_;
};

inline std::string data_record(int rank, std::string_view text, std::uint64_t sequence = 1) {
  launcherd::JournalHeader header;
  header.rank = static_cast<std::uint32_t>(rank);
  header.sequence = sequence;
  return launcherd::encode_journal_record(header, text);
}

}  // namespace muster::testing_journal
