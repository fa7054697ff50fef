# The slope of Mills' ratio as the code computes it errs by at most 10 units of 2^-53 (special.md, section 1).
# cpp/include/tightdp/special/mills.hpp: for (int i = N - 2; i >= 0; --i) sum = sum * y + p.c[i];
# cpp/include/tightdp/special/mills.hpp: (x - kMillsCenter) / (x + kMillsCenter)) / (1 + x * (1.5 + x));
@rnd = float<ieee_64, ne>;
x = rnd(x_);
c = @constant, cpp/include/tightdp/special/mills.hpp, kMillsCenter@;
a = rnd(x - c);
b = rnd(x + c);
q = a / b;
y = rnd(q);
Y = 1 - 2 * c / (x + c);
@steps, cpp/include/tightdp/special/mills.hpp, kMillsSlope, p, y, Y@
# Below 2^-900 the product may underflow; d is 1 then, whatever it is.
e = rnd(1.5 + x);
d = rnd(1 + xe);
D = 1 + x * (1.5 + x);
r = rnd(p0 / d);
Q = P0 / D;  # differs from the true R by the error of the polynomial (mills.sollya)
{ x in [0, 1b499] ->
@products, cpp/include/tightdp/special/mills.hpp, kMillsSlope, p, y@
xe -/ (x * e) in [-1b-53, 1b-53] ->
Q -/ R in [-7b-56, 7b-56] ->
r -/ R in [-10b-53, 10b-53] }
y - Y -> (y - q) + (q - Y);
q - Y -> ((a - (x - c)) - Y * (b - (x + c))) / b { b <> 0, x + c <> 0 };
q - Y -> Y * ((1 + (a - (x - c)) / (x - c)) / (1 + (b - (x + c)) / (x + c)) - 1) { x - c <> 0, x + c <> 0, b <> 0 };
$ x in (0.03125, 0.125, 0.5, 1, 2, 4, 8, 16, 64, 1024);
