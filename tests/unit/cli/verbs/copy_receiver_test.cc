#include "cli/verbs/copy_receiver.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::cli::copy_receiver_test {
namespace {

class CopyReceiverTest : public ::testing::Test {
 protected:
  std::ptrdiff_t entries() const {
    return std::distance(std::filesystem::directory_iterator(root_.path()), std::filesystem::directory_iterator());
  }
  const testing_support::TempDir root_;
};

TEST_F(CopyReceiverTest, AFileGetsItsNameWhenItIsComplete) {
  CopyReceiver receiver(root_ / "out", "name", true);
  ASSERT_TRUE(receiver.take("FILE 5 ").ok());
  ASSERT_TRUE(receiver.take("640\nhe").ok());
  EXPECT_NE(::access((root_ / "out").c_str(), F_OK), 0);
  ASSERT_TRUE(receiver.take("llo").ok());
  EXPECT_EQ(receiver.bytes(), 5U);
  ASSERT_TRUE(receiver.commit().ok());
  EXPECT_EQ(base::read_file(root_ / "out").value(), "hello");
  struct stat info {};
  ASSERT_EQ(::stat((root_ / "out").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
  EXPECT_EQ(entries(), 1);
}

TEST_F(CopyReceiverTest, GoesIntoAFolder) {
  CopyReceiver receiver(root_.path(), "name", true);
  ASSERT_TRUE(receiver.take("FILE 0 600\n").ok());
  ASSERT_TRUE(receiver.commit().ok());
  EXPECT_EQ(receiver.path(), root_ / "name");
  EXPECT_EQ(::access((root_ / "name").c_str(), F_OK), 0);
}

TEST_F(CopyReceiverTest, APartNeverReplacesAFile) {
  ASSERT_TRUE(base::write_file_atomically(root_ / "out", "before").ok());
  {
    CopyReceiver receiver(root_ / "out", "name", true);
    ASSERT_TRUE(receiver.take("FILE 5 600\nhell").ok());
    EXPECT_EQ(receiver.commit().message(), "4 of 5 bytes arrived");
  }
  EXPECT_EQ(base::read_file(root_ / "out").value(), "before");
  EXPECT_EQ(entries(), 1) << "a temporary file is left";
}

TEST_F(CopyReceiverTest, RefusesMoreThanTheFile) {
  CopyReceiver receiver(root_ / "out", "name", true);
  EXPECT_FALSE(receiver.take("FILE 5 600\nhello!").ok());
}

TEST_F(CopyReceiverTest, RefusesHostsThatSendNothing) {
  CopyReceiver receiver(root_ / "out", "name", true);
  EXPECT_EQ(receiver.commit().message(), "the host sent nothing");
}

TEST_F(CopyReceiverTest, SaysThatItsFolderIsMissing) {
  CopyReceiver receiver(root_ / "nothing/out", "name", true);
  const base::Status refused = receiver.take("FILE 5 600\n");
  EXPECT_NE(refused.message().find("No such file"), std::string::npos) << refused.message();
}

TEST_F(CopyReceiverTest, DoesNotMergeFolders) {
  ASSERT_TRUE(base::write_file_atomically(root_ / "out", "before").ok());
  CopyReceiver receiver(root_ / "out", "name", true);
  EXPECT_EQ(receiver.take("TREE\n").code(), base::Code::kAlreadyExists);
}

TEST_F(CopyReceiverTest, RefusesFoldersUnlessItTakesThem) {
  CopyReceiver receiver(root_ / "out", "name", false);
  EXPECT_EQ(receiver.take("TREE\n").code(), base::Code::kInvalidArgument);
  EXPECT_EQ(entries(), 0);
}

TEST_F(CopyReceiverTest, TakesFilesThatDoNotKnowTheirSize) {
  CopyReceiver receiver(root_ / "out", "name", false);
  ASSERT_TRUE(receiver.take("FILE - 444\nhel").ok());
  ASSERT_TRUE(receiver.take("lo").ok());
  ASSERT_TRUE(receiver.commit().ok());
  EXPECT_EQ(base::read_file(root_ / "out").value(), "hello");
}

TEST_F(CopyReceiverTest, RemovesAFolderWhoseArchiveIsBroken) {
  {
    CopyReceiver receiver(root_ / "out", "name", true);
    ASSERT_TRUE(receiver.take("TREE\nthis is no archive").ok());
    EXPECT_FALSE(receiver.commit().ok());
  }
  EXPECT_EQ(entries(), 0);
}

}  // namespace
}  // namespace muster::cli::copy_receiver_test
