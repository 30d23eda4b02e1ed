#include "launcherd/output/journal_reader.h"

#include <fcntl.h>

#include "base/unique_fd.h"
#include "tests/unit/launcherd/output/journal_rig.h"

namespace muster::launcherd::journal_reader_test {
namespace {

using testing_journal::data_record;

class JournalReaderTest : public testing_journal::JournalTest {
 protected:
  JournalReader reader(std::uint64_t position = 0) {
    fd_.reset(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    return {fd_.get(), path_, position};
  }
  base::UniqueFd fd_;
};

// Returns payloads of all sizes around the reader's block, and the longest one.
std::vector<std::string> payloads() {
  std::vector<std::string> found;
  for (const std::size_t size : {1U, 100U, 262'000U, 262'144U, 5U, 262'145U, 1U << 20, 7U}) {
    found.emplace_back(size, static_cast<char>('a' + found.size()));
  }
  return found;
}

TEST_F(JournalReaderTest, ReadsForwardsAndBackwards) {
  std::string file;
  for (const std::string& payload : payloads()) file += data_record(1, payload);
  write_file(file);
  JournalReader ahead = reader();
  for (const std::string& payload : payloads()) {
    const auto record = ahead.next();
    ASSERT_TRUE(record.ok() && record->has_value()) << record.status();
    EXPECT_EQ((*record)->payload, payload);
  }
  EXPECT_FALSE(ahead.next().value().has_value());
  EXPECT_EQ(ahead.position(), file.size());
  JournalReader back = reader(file.size());
  const std::vector<std::string> all = payloads();
  for (auto payload = all.rbegin(); payload != all.rend(); ++payload) {
    const auto record = back.previous();
    ASSERT_TRUE(record.ok() && record->has_value()) << record.status();
    EXPECT_EQ((*record)->payload, *payload);
  }
  EXPECT_FALSE(back.previous().value().has_value());
}

TEST_F(JournalReaderTest, OfAFileCutAnywhereWholeRecordsAreRead) {
  std::string file;
  std::vector<std::size_t> ends{0};
  for (const char* const payload : {"one\n", "two\n", "three\n"}) {
    file += data_record(0, payload);
    ends.push_back(file.size());
  }
  for (std::size_t size = 0; size <= file.size(); ++size) {
    write_file(std::string_view(file).substr(0, size));
    JournalReader ahead = reader();
    std::size_t count = 0;
    for (;;) {
      const auto record = ahead.next();
      ASSERT_TRUE(record.ok()) << size << ": " << record.status();
      if (!record->has_value()) break;
      ++count;
    }
    ASSERT_EQ(ahead.position(), ends[count]) << size;
    ASSERT_TRUE(count + 1 == ends.size() || ends[count + 1] > size) << size;
  }
}

TEST_F(JournalReaderTest, ReadsNoFurtherThanItMay) {
  const std::string one = data_record(0, "one\n");
  write_file(one + data_record(0, "two\n"));
  JournalReader ahead = reader();
  EXPECT_TRUE(ahead.next(one.size()).value().has_value());
  EXPECT_FALSE(ahead.next(one.size()).value().has_value());
  EXPECT_FALSE(ahead.next(one.size() + 10).value().has_value());
  EXPECT_EQ(ahead.next(2 * one.size()).value()->payload, "two\n");
}

TEST_F(JournalReaderTest, WhatIsAppendedLaterIsRead) {
  const std::string two = data_record(0, "two\n");
  write_file(data_record(0, "one\n") + two.substr(0, 41));
  JournalReader ahead = reader();
  EXPECT_TRUE(ahead.next().value().has_value());
  EXPECT_FALSE(ahead.next().value().has_value());
  std::ofstream(path_, std::ios::binary | std::ios::app) << two.substr(41);
  EXPECT_EQ(ahead.next().value()->payload, "two\n");
}

TEST_F(JournalReaderTest, DamageIsNamedByItsByte) {
  const std::string one = data_record(0, "one\n");
  std::string file = one + data_record(0, "two\n") + data_record(0, "three\n");
  file[one.size() + 3] = '?';
  write_file(file);
  JournalReader ahead = reader();
  EXPECT_TRUE(ahead.next().value().has_value());
  for (int again = 0; again < 2; ++again) {
    const auto record = ahead.next();
    EXPECT_EQ(record.status().code(), base::Code::kDataLoss);
    EXPECT_NE(record.status().message().find(path_ + " is damaged at byte 48"), std::string::npos) << record.status();
  }
  JournalReader back = reader(file.size());
  EXPECT_EQ(back.previous().value()->payload, "three\n");
  EXPECT_EQ(back.previous().status().code(), base::Code::kDataLoss);
}

TEST_F(JournalReaderTest, ABeginInsideOfARecordIsDamage) {
  write_file(data_record(0, std::string(100, 'x')));
  for (std::uint64_t at = 1; at <= 100; ++at) {
    EXPECT_EQ(reader(at).next().status().code(), base::Code::kDataLoss) << at;
    EXPECT_EQ(reader(at).previous().status().code(), base::Code::kDataLoss) << at;
  }
}

}  // namespace
}  // namespace muster::launcherd::journal_reader_test
