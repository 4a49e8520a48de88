import unittest

from shop.cart import Line, total


class CartTest(unittest.TestCase):
    def test_total_is_rounded_once(self):
        thirds = [Line("third", 0.335, 1), Line("third", 0.335, 1), Line("third", 0.335, 1)]
        self.assertEqual(total(thirds), 1.01)


if __name__ == "__main__":
    unittest.main()
