// main() of programs of GoogleTest. To ctest they are few tests: which parts were skipped, and why, stands at the end
// of their output as tests/support/suite.py has it.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>

namespace {

class Telling : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    for (int i = 0; i < test.result()->total_part_count(); ++i) {
      const testing::TestPartResult& result = test.result()->GetTestPartResult(i);
      if (!result.skipped()) continue;
      std::string reason = result.message();
      std::replace(reason.begin(), reason.end(), '\n', ' ');
      skipped_ += std::string("skipped part: ") + test.test_suite_name() + "." + test.name() + ": " + reason + "\n";
    }
  }
  void OnTestProgramEnd(const testing::UnitTest& /*tests*/) override {
    if (!skipped_.empty())
      std::cout << "\nCTEST_FULL_OUTPUT: this word keeps ctest from cutting off what follows\n"
                << skipped_ << std::flush;
  }

  std::string skipped_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new Telling);  // which owns it
  return RUN_ALL_TESTS();
}
