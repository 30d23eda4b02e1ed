#include "model/traceback.h"

#include <gtest/gtest.h>

namespace muster::model::traceback_test {
namespace {

constexpr const char* kPlain =
    "Traceback (most recent call last):\n"
    "  File \"/w/train.py\", line 3, in <module>\n"
    "    main()\n"
    "    ^^^^^^\n"
    "ValueError: bad value 7\n";

TEST(ExceptionLine, FollowsTheLastFrame) {
  EXPECT_EQ(exception_line(kPlain), "ValueError: bad value 7");
  EXPECT_EQ(exception_line(std::string("warning: x\n") + kPlain + "bye\n"), "ValueError: bad value 7");
  EXPECT_EQ(exception_line("    main()\n  File \"x.py\", line 3, in f\n    g()\nKeyError: 'a'"), "KeyError: 'a'")
      << "a tail begins in the middle of the traceback";
}

TEST(ExceptionLine, TakesTheLastOfAChain) {
  const std::string chain = std::string(kPlain) +
                            "\nDuring handling of the above exception, another exception occurred:\n\n"
                            "Traceback (most recent call last):\n"
                            "  File \"x.py\", line 1, in f\n"
                            "RuntimeError: second\n";
  EXPECT_EQ(exception_line(chain), "RuntimeError: second");
}

TEST(ExceptionLine, KnowsSyntaxErrorsAndCrashes) {
  EXPECT_EQ(exception_line("  File \"x.py\", line 3\n    if\n      ^\nSyntaxError: invalid syntax\n"),
            "SyntaxError: invalid syntax");
  EXPECT_EQ(exception_line("Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
                           "  File \"x.py\", line 2 in f\n\nExtension modules: numpy\n"),
            "Fatal Python error: Segmentation fault");
}

TEST(ExceptionLine, IsEmptyWithoutOne) {
  EXPECT_EQ(exception_line(""), "");
  EXPECT_EQ(exception_line("error: no such file\n  File size 3\n"), "");
  EXPECT_EQ(exception_line("  File \"x.py\", line 3, in f\n    g()\n"), "") << "it was cut before its end";
}

TEST(SameException, IgnoresNumbers) {
  EXPECT_TRUE(is_same_exception("RuntimeError: rank 3 at 0x7f3a", "RuntimeError: rank 12 at 0x1b"));
  EXPECT_FALSE(is_same_exception("RuntimeError: a", "RuntimeError: b"));
  EXPECT_FALSE(is_same_exception("RuntimeError: a", "ValueError: a"));
}

TEST(MissingModule, IsNamed) {
  EXPECT_EQ(missing_module("ModuleNotFoundError: No module named 'torch'"), "torch");
  EXPECT_EQ(missing_module("ModuleNotFoundError: No module named 'a.b'; 'a' is not a package"), "a.b");
  EXPECT_EQ(missing_module("/usr/bin/python3: No module named pytest\n"), "pytest");
  EXPECT_EQ(missing_module("ValueError: x"), "");
  EXPECT_EQ(missing_module("the log has No module named x"), "");
  EXPECT_EQ(missing_module("ImportError: cannot import name 'x' from 'y'"), "");
  EXPECT_EQ(missing_module("ModuleNotFoundError: No module named ''"), "");
}

TEST(MissingLibrary, IsNamed) {
  EXPECT_EQ(missing_library("ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"),
            "libcudart.so.12");
  EXPECT_EQ(missing_library("ImportError: : cannot open shared object file"), "");
  EXPECT_EQ(missing_library("OSError: x"), "");
}

}  // namespace
}  // namespace muster::model::traceback_test
