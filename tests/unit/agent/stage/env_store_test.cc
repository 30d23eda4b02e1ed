#include "agent/stage/env_store.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/directory.h"
#include "tests/unit/agent/stage/env_fixture.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::env_store_test {
namespace {

namespace fs = std::filesystem;
using namespace env_test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EnvStoreTest : public ::testing::Test {
 protected:
  EnvStoreTest() : store_(*EnvStore::open(root_ / "envs")) {}

  // Stages the archive and unpacks it. Returns its id.
  std::string put(const Entries& entries) {
    const Archive archive = archive_of(entries);
    root_.write("envs/" + archive.id + ".pack", archive.packed);
    status_ = store_.unpack(archive.id);
    return archive.id;
  }
  std::vector<std::string> names() const { return base::entries_of(store_.folder()); }
  std::string content(const std::string& id, const std::string& path) const {
    return root_.read("envs/" + id + "/" + path);
  }
  void age(const std::string& id, std::chrono::seconds idle) const {
    const timespec at{.tv_sec = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() - idle),
                      .tv_nsec = 0};
    const timespec times[2] = {at, at};
    ASSERT_EQ(::utimensat(AT_FDCWD, (store_.path_of(id) + "/" + kEnvMark).c_str(), times, 0), 0);
  }

  const testing_support::TempDir root_;
  const EnvStore store_;
  base::Status status_;
};

TEST_F(EnvStoreTest, UnpacksAndNamesTheNewPath) {
  const std::string id =
      put({a_prefix("/old/env"), a_folder("bin"), a_file("bin/tool", "#!/old/env/bin/python\n", 0775),
           a_folder("lib", 0555), a_file("lib/a", "in /old/env\n"), a_link("lib/out", "/etc/hostname"),
           a_link("in", "/old/env/lib/a")});
  ASSERT_TRUE(status_.ok()) << status_.message();
  EXPECT_THAT(names(), ElementsAre(id));
  EXPECT_EQ(content(id, "bin/tool"), "#!" + store_.path_of(id) + "/bin/python\n");
  EXPECT_EQ(content(id, "lib/a"), "in /old/env\n");
  EXPECT_EQ(fs::read_symlink(store_.path_of(id) + "/lib/out"), "/etc/hostname");
  EXPECT_EQ(fs::read_symlink(store_.path_of(id) + "/in"), store_.path_of(id) + "/lib/a");
  struct stat info {};
  ASSERT_EQ(::stat((store_.path_of(id) + "/bin/tool").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755U);  // no other user may write
  EXPECT_EQ(info.st_mtim.tv_sec, 1'600'000'000);
  ASSERT_EQ(::stat((store_.path_of(id) + "/lib").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0755U);  // its owner must be able to remove it
  EXPECT_TRUE(*store_.find(id));
}

TEST_F(EnvStoreTest, RefusesADamagedArchive) {
  const Archive archive = archive_of({a_file("a", "content")});
  for (const std::string& packed :
       {archive.packed.substr(0, archive.packed.size() - 2), archive.packed + "x",
        archive_of({a_file("a", "kontent")}).packed, std::string("nothing"), std::string()}) {
    root_.write("envs/" + archive.id + ".pack", packed);
    EXPECT_EQ(store_.unpack(archive.id).code(), base::Code::kDataLoss);
    EXPECT_THAT(names(), IsEmpty());  // so that it is sent again
  }
}

TEST_F(EnvStoreTest, StopsWhenItIsTold) {
  const Archive archive = archive_of({a_file("a", "content")});
  root_.write("envs/" + archive.id + ".pack", archive.packed);
  const std::atomic<bool> stop{true};
  EXPECT_EQ(store_.unpack(archive.id, &stop).code(), base::Code::kCancelled);
  EXPECT_THAT(names(), ElementsAre(archive.id + ".pack"));  // the next start continues with it
}

TEST_F(EnvStoreTest, UsesWhatAnotherJobHasUnpacked) {
  const std::string id = put({a_file("a", "content")});
  EXPECT_TRUE(store_.unpack(id).ok());
  EXPECT_EQ(put({a_file("a", "content")}), id);  // the archive of the second job came later
  EXPECT_TRUE(status_.ok()) << status_.message();
  EXPECT_THAT(names(), ElementsAre(id));
  EXPECT_EQ(store_.unpack("0123456789abcdef0123456789abcdef").code(), base::Code::kNotFound);
}

TEST_F(EnvStoreTest, DoesNotUseForgottenOnes) {
  const std::string id = put({a_file("a", "content")});
  age(id, EnvStore::kForgotten);
  EXPECT_FALSE(*store_.find(id));
  EXPECT_EQ(store_.hold(id).status().code(), base::Code::kNotFound);
  put({a_file("a", "content")});
  EXPECT_TRUE(status_.ok()) << status_.message();
  EXPECT_TRUE(*store_.find(id));
}

TEST_F(EnvStoreTest, KeepsForgottenOnesThatAJobUses) {
  const std::string id = put({a_file("a", "content")});
  const auto held = store_.hold(id);
  ASSERT_TRUE(held.ok());
  age(id, EnvStore::kForgotten);
  EXPECT_TRUE(*store_.find(id));
  store_.sweep();
  EXPECT_THAT(names(), ElementsAre(id));
}

TEST_F(EnvStoreTest, AUseMakesTheFilesRecent) {
  const std::string id = put({a_file("a", "content")});
  age(id, EnvStore::kRecent);
  EXPECT_TRUE(*store_.find(id));
  ASSERT_EQ(store_.list().size(), 1U);
  EXPECT_LT(store_.list().front().idle, std::chrono::minutes(1));
  struct stat info {};
  ASSERT_EQ(::stat((store_.path_of(id) + "/a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mtim.tv_sec, 1'600'000'000);  // Python compares it
}

TEST_F(EnvStoreTest, DoesNotUseOnesOfAnotherBoot) {
  const std::string id = put({a_file("a", "content")});
  root_.write("envs/" + id + "/" + kEnvMark, "another-boot 7\n");
  EXPECT_FALSE(*store_.find(id));
  root_.write("envs/" + id + "/" + kEnvMark, "");
  EXPECT_FALSE(*store_.find(id));
  store_.sweep();
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(EnvStoreTest, ListsAndRemovesWhatNoJobUses) {
  const std::string id = put({a_file("a", "content")});
  {
    const auto held = store_.hold(id);
    EXPECT_TRUE(store_.list().front().is_used);
    EXPECT_FALSE(*store_.remove(id));
  }
  EXPECT_FALSE(store_.list().front().is_used);
  EXPECT_EQ(store_.list().front().bytes, 7U);
  EXPECT_TRUE(*store_.remove(id));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(EnvStoreTest, NamesThePythonThatIsMissing) {
  put({a_folder("bin"), a_link("bin/python3", "/opt/nowhere/python3"), a_file("pyvenv.cfg", "home = /opt/nowhere\n")});
  EXPECT_THAT(status_.message(), HasSubstr("bin/python3 of the environment leads to /opt/nowhere/python3"));
  EXPECT_THAT(names(), IsEmpty());
  put({a_folder("bin"), a_link("bin/python3", "/opt/nowhere/python3")});  // this is no virtual environment
  EXPECT_TRUE(status_.ok());
}

TEST_F(EnvStoreTest, TakesOnlyIds) {
  EXPECT_EQ(store_.find("../x").status().code(), base::Code::kInvalidArgument);
  EXPECT_EQ(store_.unpack("..").code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace muster::agent::env_store_test
