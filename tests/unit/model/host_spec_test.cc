#include "model/host_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::model::host_spec_test {
namespace {

using ::testing::HasSubstr;

// user@name:port slots/max, with what is not given left out: the whole HostSpec on one line.
std::string show(const HostSpec& host) {
  std::string text = host.user.empty() ? host.name : host.user + "@" + host.name;
  if (host.port != 0) text += fmt::format(" port={}", host.port);
  if (host.slots) text += fmt::format(" slots={}", *host.slots);
  if (host.max_slots) text += fmt::format(" max={}", *host.max_slots);
  return text;
}

std::string show(const std::vector<HostSpec>& hosts) {
  std::string text;
  for (const HostSpec& host : hosts) text += (text.empty() ? "" : " | ") + show(host);
  return text;
}

struct Accepted {
  std::string text;
  std::string hosts;
};

class HostListAccepted : public ::testing::TestWithParam<Accepted> {};

TEST_P(HostListAccepted, IsReadAs) {
  const auto hosts = parse_host_list(GetParam().text, "-H");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(show(*hosts), GetParam().hosts);
}

INSTANTIATE_TEST_SUITE_P(
    Table, HostListAccepted,
    ::testing::Values(Accepted{"n1", "n1"}, Accepted{"n1:4", "n1 slots=4"}, Accepted{"n1:4,n2", "n1 slots=4 | n2"},
                      Accepted{" n1:4 , n2:2 ", "n1 slots=4 | n2 slots=2"}, Accepted{"alice@n1:2", "alice@n1 slots=2"},
                      Accepted{"n1,n1", "n1 | n1"},  // repeats stay: place() merges them
                      Accepted{"login-1.site.org:64", "login-1.site.org slots=64"}, Accepted{"_x", "_x"},
                      Accepted{"10.0.0.1:2", "10.0.0.1 slots=2"}, Accepted{"7", "7"}, Accepted{"[::1]", "::1"},
                      Accepted{"[fe80::1]:4", "fe80::1 slots=4"},
                      Accepted{"bob@[2001:db8::7]:1", "bob@2001:db8::7 slots=1"},
                      Accepted{"[fe80::1%eth0]:2", "fe80::1%eth0 slots=2"}, Accepted{"n[1-3]", "n1 | n2 | n3"},
                      Accepted{"n[08-11]", "n08 | n09 | n10 | n11"},
                      Accepted{"n[01-02,20]:4,m", "n01 slots=4 | n02 slots=4 | n20 slots=4 | m"},
                      Accepted{"al@n[1,3]-ib:2", "al@n1-ib slots=2 | al@n3-ib slots=2"}, Accepted{"n[9-9]", "n9"},
                      Accepted{"[01-02]", "01 | 02"},
                      // several ranges, as Slurm writes them: the last one counts fastest
                      Accepted{"rack[1-2]n[08,10]:2",
                               "rack1n08 slots=2 | rack1n10 slots=2 | rack2n08 slots=2 | rack2n10 slots=2"},
                      Accepted{"a[1][2-3]-ib", "a12-ib | a13-ib"}, Accepted{"n1:100000", "n1 slots=100000"}));

struct Refused {
  std::string text;
  std::string reason;
};

class HostListRefused : public ::testing::TestWithParam<Refused> {};

TEST_P(HostListRefused, SaysWhy) {
  const auto hosts = parse_host_list(GetParam().text, "-H");
  ASSERT_FALSE(hosts.ok()) << show(*hosts);
  EXPECT_EQ(hosts.status().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(hosts.status().message(), HasSubstr(GetParam().reason));
  EXPECT_EQ(hosts.status().message().substr(0, 4), "-H: ");
}

INSTANTIATE_TEST_SUITE_P(
    Table, HostListRefused,
    ::testing::Values(
        Refused{"", "the list of hosts is empty"}, Refused{" ", "the list of hosts is empty"},
        Refused{"n1,,n2", "a host name is missing"}, Refused{"n1,", "a host name is missing"},
        Refused{",n1", "a host name is missing"}, Refused{"n1:0", "slots must be a number from 1"},
        Refused{"n1:", "slots must be a number"}, Refused{"n1:-1", "slots must be a number"},
        Refused{"n1:100001", "slots must be a number"}, Refused{"n1:99999999999999999999", "slots must be"},
        Refused{"-oProxyCommand=x", "'-oProxyCommand=x' is not a host name"},
        Refused{"$(reboot)", "is not a host name"}, Refused{"n1;ls", "is not a host name"},
        Refused{"n 1", "is not a host name"}, Refused{".n1", "is not a host name"}, Refused{"n\x1b[1]", "\\x1b"},
        Refused{"-x@n1", "is not a user name"}, Refused{"@n1", "is not a user name"},
        Refused{"a@b@n1", "is not a user name"}, Refused{"user@", "is not a host name"},
        Refused{"::1", "IPv6 addresses in brackets"}, Refused{"fe80::1:4", "IPv6 addresses in brackets"},
        Refused{"n1:2:3", "more than one ':'"}, Refused{"[::1", "is not an IPv6 address"},
        Refused{"[::g]", "is not an IPv6 address"}, Refused{"[::1]4", "only :slots may follow"},
        Refused{"[::1]:x", "slots must be a number"}, Refused{"[fe80::1%a b]", "is not an IPv6 address"},
        Refused{"n[1-", "does not close it"}, Refused{"n[3-1]", "runs backwards"}, Refused{"n[a-b]", "is not a range"},
        Refused{"n[]", "is not a range"}, Refused{"n[1-2][3-", "does not close it"},
        Refused{"n[[1]]", "is not a range"}, Refused{"n]1[", "does not close it"},
        Refused{"n[1]]", "'n1]' is not a host name"}, Refused{"n[1-400][1-400]", "more than 100000 hosts"},
        Refused{"n[1-60000,1-60000]", "more than 100000 hosts"}, Refused{"n[1-1000000000]", "is not a range"},
        Refused{"n[1-100001]", "more than 100000 hosts"}, Refused{"n[0000000001-2]", "is not a range"},
        Refused{"-n[1-2]", "is not a host name"}),
    [](const auto& test) { return fmt::format("case{}", test.index); });

TEST(HostList, NewlineAtTheEndIsABlank) {
  EXPECT_EQ(show(parse_host_list("n1:2\n", "-H").value()), "n1 slots=2");
}

TEST(HostList, ManyRangesTogetherStayBounded) {
  const auto hosts = parse_host_list("n[1-60000],m[1-60000]", "-H");
  ASSERT_FALSE(hosts.ok());
  EXPECT_THAT(hosts.status().message(), HasSubstr("more than 100000 hosts"));
}

TEST(HostList, LongNamesAreRefusedAndNotRepeatedInFull) {
  const auto hosts = parse_host_list(std::string(5000, 'a'), "-H");
  ASSERT_FALSE(hosts.ok());
  EXPECT_LT(hosts.status().message().size(), 300u);
}

class HostfileAccepted : public ::testing::TestWithParam<Accepted> {};

TEST_P(HostfileAccepted, IsReadAs) {
  const auto hosts = parse_hostfile(GetParam().text, "hosts");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  EXPECT_EQ(show(*hosts), GetParam().hosts);
}

INSTANTIATE_TEST_SUITE_P(Table, HostfileAccepted,
                         ::testing::Values(Accepted{"n1 slots=4\nn2 slots=2\n", "n1 slots=4 | n2 slots=2"},
                                           Accepted{"n1 slots=4\r\nn2\r\n", "n1 slots=4 | n2"}, Accepted{"n1", "n1"},
                                           Accepted{"\n# all\n\n  n1:4 # the first\n\t\n", "n1 slots=4"},
                                           Accepted{"n1 slots=2 max_slots=4 port=2222 user=al",
                                                    "al@n1 port=2222 slots=2 max=4"},
                                           Accepted{"n1 user=al port=22 max-slots=4", "al@n1 port=22 max=4"},
                                           Accepted{"n[1-2] slots=3", "n1 slots=3 | n2 slots=3"},
                                           Accepted{"n1:1,n2:2 port=23", "n1 port=23 slots=1 | n2 port=23 slots=2"},
                                           Accepted{"[::1]:2\n[::2] slots=3", "::1 slots=2 | ::2 slots=3"},
                                           Accepted{"\xef\xbb\xbfn1\n", "n1"}, Accepted{"n1\nn1\n", "n1 | n1"}));

// Files as other programs' manuals show them.
INSTANTIATE_TEST_SUITE_P(
    Dialects, HostfileAccepted,
    ::testing::Values(
        // horovodrun
        Accepted{"host1 slots=2\nhost2 slots=4\nhost3 slots=1\n", "host1 slots=2 | host2 slots=4 | host3 slots=1"},
        // Open MPI
        Accepted{"# This is an example hostfile.\nfoo.example.com\nbar.example.com slots=2\n"
                 "yow.example.com slots=4 max-slots=4\nal@zip.example.com slots = 4 max_slots= 8 // spare\n",
                 "foo.example.com | bar.example.com slots=2 | yow.example.com slots=4 max=4 | "
                 "al@zip.example.com slots=4 max=8"},
        Accepted{"n1 cpu=2 slots_max=3\nn2 count=4 user_name=bob\n", "n1 slots=2 max=3 | bob@n2 slots=4"},
        Accepted{"n1 slots =4\nn2\tslots\t=\t4\tport = 22", "n1 slots=4 | n2 port=22 slots=4"},
        // MPICH, Intel MPI
        Accepted{"# comment\ndonner.example.edu:2\nfoo.example.edu:3\nshakey.example.edu\n",
                 "donner.example.edu slots=2 | foo.example.edu slots=3 | shakey.example.edu"},
        // DeepSpeed
        Accepted{"worker-1 slots=4\nworker-2 slots=4\n", "worker-1 slots=4 | worker-2 slots=4"},
        // PBS node files: a line a chunk
        Accepted{"x3006c0s13b1n0.hsn.cm.polaris.alcf.anl.gov\nx3006c0s13b1n0.hsn.cm.polaris.alcf.anl.gov\n",
                 "x3006c0s13b1n0.hsn.cm.polaris.alcf.anl.gov | x3006c0s13b1n0.hsn.cm.polaris.alcf.anl.gov"},
        // Slurm and Flux lists
        Accepted{"gpu[01-02,10] slots=2\n", "gpu01 slots=2 | gpu02 slots=2 | gpu10 slots=2"}));

class HostfileRefused : public ::testing::TestWithParam<Refused> {};

TEST_P(HostfileRefused, NamesThePlace) {
  const auto hosts = parse_hostfile(GetParam().text, "hosts");
  ASSERT_FALSE(hosts.ok()) << show(*hosts);
  EXPECT_THAT(hosts.status().message(), HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    Table, HostfileRefused,
    ::testing::Values(Refused{"", "hosts: no host is named"}, Refused{"# none\n\n", "no host is named"},
                      Refused{"n1\nn2 slot=4\n", "hosts:2:4: unknown word 'slot=4'"},
                      Refused{"n1 4", "hosts:1:4: unknown word '4'"}, Refused{"n1 slots=", "hosts:1:10: slots must be"},
                      Refused{"n1 slots=0", "slots must be a number from 1"},
                      Refused{"n1 slots = x", "hosts:1:12: slots must be a number"},
                      Refused{"n1 slots =", "hosts:1:11: slots must be a number"},
                      Refused{"n1 slots", "hosts:1:4: unknown word 'slots'"},
                      Refused{"n1 = 4", "hosts:1:4: unknown word '= 4'"},
                      Refused{"n1 slots=2 cpu=2", "hosts:1:12: cpu is given twice"},
                      Refused{"n1 slots=2 slots=2", "hosts:1:12: slots is given twice"},
                      Refused{"n1 port=1 port=2", "port is given twice"}, Refused{"n1 user=a user=b", "twice"},
                      Refused{"n1 max_slots=1 max_slots=1", "max_slots is given twice"},
                      Refused{"n1:4 slots=4", "the slots of n1 are given twice"},
                      Refused{"a@n1 user=b", "the user of n1 is given twice"},
                      Refused{"n1 port=0", "port must be a number from 1 to 65535"}, Refused{"n1 port=65536", "port"},
                      Refused{"n1 user=-x", "hosts:1:9: '-x' is not a user name"},
                      Refused{"n1 slots=5 max_slots=4", "n1 has 5 slots, more than its max_slots=4"},
                      Refused{"ok\n  -bad slots=1", "hosts:2:3: '-bad' is not a host name"},
                      Refused{"n1,,n2", "hosts:1:4: a host name is missing"}, Refused{std::string("n\0", 2), "\\x00"}),
    [](const auto& test) { return fmt::format("case{}", test.index); });

TEST(HostSpec, LocalhostIsANameOrALoopbackLiteralWithoutUserAndPort) {
  EXPECT_TRUE(is_localhost({.name = "localhost"}));
  EXPECT_TRUE(is_localhost({.name = "127.0.0.1"}));
  EXPECT_TRUE(is_localhost({.name = "127.3.2.1"}));
  EXPECT_TRUE(is_localhost({.name = "::1"}));
  EXPECT_FALSE(is_localhost({.name = "127.example.org"}));
  EXPECT_FALSE(is_localhost({.name = "n1"}));
  EXPECT_FALSE(is_localhost({.name = "10.0.0.1"}));
  EXPECT_FALSE(is_localhost({.name = "localhost", .user = "bob"}));
  EXPECT_FALSE(is_localhost({.name = "localhost", .user = "", .port = 2222}));
}

TEST(HostSpec, DisplayNameCanBeTypedAgain) {
  EXPECT_EQ(display_name({.name = "n1"}), "n1");
  EXPECT_EQ(display_name({.name = "fe80::1", .user = "al"}), "al@[fe80::1]");
}

}  // namespace
}  // namespace muster::model::host_spec_test
